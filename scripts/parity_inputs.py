"""Strings and chats on which tokenizers and chat templates of several programs are compared: the same ones each time."""
import random

WORDS = ("the quick brown fox Hello WORLD's don't I'LL we'Ve naïve Straße coöperate x_y camelCase HTTPServer "
         "3.14159 1,000,000 0xDEADBEEF 1e-9 2026-11-30 ¿qué? niños façade Ångström Ωmega Привет мир ещё "
         "Γειά σου κόσμε שלום עולם مرحبا بالعالم الْعَرَبِيَّة ٠١٢٣٤٥ हिन्दी में नमस्ते ไทยไม่มีช่องว่าง 안녕하세요 세계 한국어 "
         "漢字 かな カタカナ 日本語のテスト。 你好,世界! 中文分词测试 繁體中文 ｆｕｌｌｗｉｄｔｈ １２３ ﬁ ﬀ ½ ² ™ № Ⅷ "
         "e\u0301 n\u0303 a\u0308\u0301 \u1100\u1161\u11a8 İstanbul ı ǆ Tiếng Việt ქართული հայերեն አማርኛ ᚠᚢᚦ 𝕳𝖊𝖑𝖑𝖔 𐍈").split()
EMOJI = ["🙂", "👍🏽", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇫🇷🇯🇵", "❤️", "☃", "1️⃣", "🧑🏿‍🚀", "😀😀😀", "🫠"]
SPACES = [" ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", " \n ", "\t\t", "\u00a0", "\u2003", "\u3000", "\u200b",
          "\u2028", "\ufeff", "\u0085", "\u1680", "\u202f", "\x0b", "\x0c", "\r"]
CONTROLS = [chr(c) for c in (*range(1, 9), 14, 27, 31, 127, 128, 159, 0xAD, 0x200D, 0x202E, 0xFFFD, 0xFFFE, 0x10FFFF)]
SPECIALS = ["<s>", "</s>", "<bos>", "<eos>", "<pad>", "<unk>", "<|im_start|>", "<|im_end|>", "<|endoftext|>",
            "<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<start_of_turn>", "<end_of_turn>", "<think>",
            "</think>", "<tool_call>", "<|start|>", "<|message|>", "<|return|>", "<｜begin▁of▁sentence｜>",
            "<｜User｜>", "<｜▁pad▁｜>", "<mask>", "[INST]", "<0x0A>", "<unused1>", "▁", "Ġ", "<|im_start", "|>"]
CODE = ["def f(x: int = 3) -> str:\n    return f\"{x!r:>{10}}\"\n", "for (int i = 0; i < n; ++i) {\n\tsum += a[i];\n}\n",
        "#include <vector>\nstd::vector<std::pair<int, T>> v{{1, {}}};", "SELECT * FROM t WHERE a <> 'b''c' -- x\n",
        "<div class=\"a b\">&nbsp;&#x27;</div>\n", "{\"k\": [1, 2.5e-3, null, true], \"é\": \"\\u00e9\"}",
        "let s = `a${b ? '\\n' : c}`; // 漢字", "if [ -n \"$x\" ]; then echo $((1+2)) >> /dev/null 2>&1; fi",
        "fn main() { let r: Result<(), Box<dyn Error>> = Ok(()); }", "  \tx = lambda *a, **k: a[::-1]\n\n\n    pass",
        "\\begin{equation} \\sum_{i=1}^{n} x_i^2 \\end{equation}", "a->b->c::d<e>>f<<=1;", "https://example.org/a?b=c&d=%20#e",
        "===\n---\n***\n```c++\n```\n", "| a | b |\n|---|---|\n| 1 | 2 |\n"]
RUN_UNITS = [" ", "\n", "\t", "a", "ab", "1", "=", "-", "!", "é", "漢", "あ", "🙂", "\r\n", " a", "\u00a0", "\u0301", "'s", "..", "ж"]


def any_character(rng):
    while True:
        code = rng.randrange(1, 0x110000) if rng.random() < 0.3 else rng.randrange(1, 0x3100)
        if not 0xD800 <= code < 0xE000:
            return chr(code)


def piece(rng):
    kind = rng.random()
    if kind < 0.45:
        return rng.choice(WORDS)
    if kind < 0.62:
        return rng.choice(SPACES)
    if kind < 0.70:
        return str(rng.randrange(10 ** rng.randrange(1, 15)))
    if kind < 0.76:
        return rng.choice(EMOJI)
    if kind < 0.80:
        return rng.choice(CONTROLS)
    if kind < 0.86:
        return rng.choice(SPECIALS)
    if kind < 0.94:
        return "".join(rng.choice("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") for _ in range(rng.randrange(1, 4)))
    return any_character(rng)


def make_strings(count=2000, seed=4):
    """The empty string, each ingredient alone, code with its lines cut, long runs, and mixtures."""
    rng = random.Random(seed)
    strings = [""] + WORDS + EMOJI + SPACES + CONTROLS + SPECIALS + CODE
    strings += [s + "a" for s in SPACES] + ["a" + s for s in SPACES] + [f" {s} x{s}{s}" for s in SPECIALS]
    for unit in RUN_UNITS:
        strings += [unit * n for n in (2, 3, 4, 7, 16, 33, 100)] + [f"x{unit * 5}y"]
    while len(strings) < count * 5 // 8:
        strings.append("".join(any_character(rng) for _ in range(rng.randrange(1, 12))))
    while len(strings) < count * 6 // 8:
        text = rng.choice(CODE) + rng.choice(CODE)
        begin = rng.randrange(len(text))
        strings.append(text[begin:begin + rng.randrange(5, 60)])
    while len(strings) < count:
        glue = rng.choice(["", " ", " "])
        strings.append(glue.join(piece(rng) for _ in range(rng.randrange(2, 12))))
    return strings[:count]


PARAMETERS = {"type": "object", "properties": {
    "city": {"type": "string", "description": "City & country, e.g. \"Köln\" <DE>", "enum": ["Paris", "東京"]},
    "days": {"type": "integer", "default": 3, "minimum": 1}, "exact": {"type": "boolean", "default": False},
    "scale": {"type": ["number", "null"], "default": 1.0, "maximum": 1e20, "multipleOf": 1e-05},
    "where": {"type": "object", "properties": {"lat": {"type": "number"}, "tags": {"type": "array", "items": {"type": "string"}}},
              "required": ["lat"]}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "Weather in a city.\nIt's <b>now</b>.",
                                           "parameters": PARAMETERS}},
         {"type": "function", "function": {"name": "noop", "description": "", "parameters": {"type": "object", "properties": {}}}}]
SYSTEM = {"role": "system", "content": "You are terse. Say \"non\" & <stop>."}
USER = {"role": "user", "content": "Hello, 世界! 🙂"}
ANSWER = {"role": "assistant", "content": "Hi there."}


def call(arguments, name="get_weather", call_id="call12345"):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def calling(arguments, content="", **more):
    return {"role": "assistant", "content": content, "tool_calls": [call(arguments)], **more}


def make_chats():
    """{name: what a chat template is rendered with}."""
    arguments = {"city": "Köln", "days": 2, "exact": True, "scale": 1.0, "where": {"lat": -0.5, "tags": ["a'b", "\"c\""]}, "x": None}
    result = {"role": "tool", "tool_call_id": "call12345", "name": "get_weather", "content": "{\"temp\": 21.5, \"unit\": \"°C\"}"}
    thinking = {"role": "assistant", "content": "Sum: 4.", "reasoning_content": "2+2\nis 4", "thinking": "2+2\nis 4"}
    parts = {"role": "user", "content": [{"type": "text", "text": "Part one."}, {"type": "text", "text": " Part two. "}]}
    again = {"role": "user", "content": "And now?"}
    chat = lambda *messages, **more: {"messages": list(messages), **more}
    return {
        "user": chat(USER), "system": chat(SYSTEM, USER), "no_prompt": chat(SYSTEM, USER, ANSWER, add_generation_prompt=False),
        "turns": chat(SYSTEM, USER, ANSWER, again), "turns_plain": chat(USER, ANSWER, again, ANSWER, USER),
        "spaces": chat({"role": "user", "content": "  \n hi\t\n"}, {"role": "assistant", "content": "\n\n ho \n"}, again),
        "unicode_spaces": chat({"role": "user", "content": "\u00a0\u3000hi\u2028\x1c"}), "empty": chat({"role": "user", "content": ""}),
        "open": chat(USER, {"role": "assistant", "content": "Sure, it"}, add_generation_prompt=False, continue_final_message=True),
        "open_space": chat(USER, {"role": "assistant", "content": " Sure, "}, add_generation_prompt=False, continue_final_message=True),
        "parts": chat(SYSTEM, parts), "two_users": chat(USER, again), "assistant_first": chat(ANSWER, USER),
        "late_system": chat(USER, ANSWER, SYSTEM, again), "developer": chat({"role": "developer", "content": "Be brief."}, USER),
        "think_tag": chat(USER, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nYes."}, again),
        "reasoning": chat(SYSTEM, USER, thinking, again), "reasoning_last": chat(USER, thinking, add_generation_prompt=False),
        "thinking_off": chat(USER, kwargs={"enable_thinking": False, "thinking": False}),
        "thinking_on": chat(USER, kwargs={"enable_thinking": True, "thinking": True, "reasoning_effort": "high"}),
        "tools": chat(SYSTEM, USER, tools=TOOLS), "tools_no_system": chat(USER, tools=TOOLS),
        "tool_call": chat(SYSTEM, USER, calling(arguments), result, tools=TOOLS),
        "tool_answer": chat(USER, calling(arguments), result, {"role": "assistant", "content": "21.5 °C."}, again, tools=TOOLS),
        "tool_text_arguments": chat(USER, calling("{\"city\": \"Köln\", \"days\": 2}"), result, tools=TOOLS),
        "tool_null_content": chat(USER, calling({"city": "Paris"}, None), result, tools=TOOLS),
        "tool_with_content": chat(USER, calling({"city": "Paris"}, "Let me look.", reasoning_content="I need it."), result, tools=TOOLS),
        "tool_no_arguments": chat(USER, {"role": "assistant", "content": "", "tool_calls": [call({}, "noop")]}, result, tools=TOOLS),
        "tools_parallel": chat(USER, {"role": "assistant", "content": "", "tool_calls": [call(arguments), call({"city": "東京"}, call_id="call67890")]},
                               result, {**result, "tool_call_id": "call67890", "content": "rain"}, again, tools=TOOLS),
        "tool_object_content": chat(USER, calling(arguments), {**result, "content": {"temp": 21.5, "ok": True, "n": None}}, tools=TOOLS),
        "documents": chat(USER, documents=[{"title": "T", "text": "Body 'x'"}, {"title": "U", "text": "More"}]),
    }
