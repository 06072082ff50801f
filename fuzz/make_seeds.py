#!/usr/bin/env python3
"""Writes the seed corpora of the fuzz targets to fuzz/seeds (those of grammar and what was found stand there already)."""
import json
import pathlib
import struct

SEEDS = pathlib.Path(__file__).parent / "seeds"
U32, F32, BOOL, STRING, ARRAY, U64 = 4, 6, 7, 8, 9, 10
ROW_BYTES = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34),
             10: (256, 84), 12: (256, 144), 13: (256, 176), 14: (256, 210), 28: (1, 8), 30: (1, 2)}


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def value(kind, v):
    if kind == STRING:
        return string(v)
    if kind == ARRAY:
        element, items = v
        return struct.pack("<IQ", element, len(items)) + b"".join(value(element, i) for i in items)
    return struct.pack("<" + {U32: "I", F32: "f", BOOL: "?", U64: "Q"}[kind], v)


def gguf(metadata, tensors, version=3, alignment=32):
    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    for key, kind, v in metadata:
        out += string(key) + struct.pack("<I", kind) + value(kind, v)
    offset, sizes = 0, []
    for name, dims, kind in tensors:
        block, block_bytes = ROW_BYTES[kind]
        elements = 1
        for dim in dims:
            elements *= dim
        out += string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)
        sizes.append(elements // block * block_bytes)
        offset += -(-sizes[-1] // alignment) * alignment
    out += b"\0" * (-len(out) % alignment)
    for size in sizes:
        out += bytes(range(256)) * (size // 256) + bytes(size % 256)
        out += b"\0" * (-size % alignment)
    return out


LLAMA = [("general.architecture", STRING, "llama"), ("llama.block_count", U32, 1),
         ("llama.embedding_length", U32, 32), ("llama.feed_forward_length", U32, 32),
         ("llama.attention.head_count", U32, 2),
         ("llama.attention.head_count_kv", ARRAY, (U32, [1])),
         ("llama.context_length", U32, 64), ("llama.attention.layer_norm_rms_epsilon", F32, 1e-5),
         ("llama.rope.scaling.type", STRING, "linear"), ("llama.rope.scaling.factor", F32, 2.0),
         ("tokenizer.ggml.tokens", ARRAY, (STRING, ["<s>", "</s>", "a"])),
         ("tokenizer.ggml.scores", ARRAY, (F32, [0.0, 1.0, 2.0])),
         ("tokenizer.ggml.eos_token_id", U32, 1), ("tokenizer.ggml.add_bos_token", BOOL, True)]


def write(folder, name, data):
    path = SEEDS / folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())


def safetensors(header, data):
    text = json.dumps(header)
    text += " " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text.encode() + data


write("gguf", "empty", gguf([], []))
write("gguf", "llama", gguf(LLAMA, [("token_embd.weight", [32, 3], 8), ("output_norm.weight", [32], 0),
                                    ("blk.0.attn_q.weight", [32, 32], 2),
                                    ("rope_freqs.weight", [8], 0)]))
write("gguf", "version2_aligned", gguf([("general.alignment", U32, 64), ("big", U64, 2**64 - 1)],
                                       [("a", [4, 2], 0), ("b", [3], 1)], version=2, alignment=64))
write("gguf", "every_type", gguf([], [(f"t{kind}", [256], kind) for kind in ROW_BYTES]))

TENSOR = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}
write("safetensors", "one", safetensors({"a": TENSOR}, bytes(16)))
write("safetensors", "two", safetensors({"__metadata__": {"format": "pt"}, "a": TENSOR,
                                         "b": {"dtype": "BF16", "shape": [], "data_offsets": [16, 18]}},
                                        bytes(18)))
write("safetensors", "types", safetensors(
    {kind: {"dtype": kind, "shape": [1], "data_offsets": [i, i + 1]}
     for i, kind in enumerate(["U8", "I8", "BOOL", "F8_E4M3", "F8_E5M2"])}, bytes(5)))

BASE = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 9, "hidden_size": 8,
        "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 1, "rms_norm_eps": 1e-5, "eos_token_id": [1, 2], "torch_dtype": "float16"}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32, "rope_theta": 5e5}
GENERATION = {"eos_token_id": 3, "temperature": 0.6, "top_k": 20, "top_p": 0.9, "do_sample": True}
write("config_json", "llama", json.dumps(BASE))
write("config_json", "llama3", json.dumps(BASE | {"rope_parameters": LLAMA3}) + "\0" +
      json.dumps(GENERATION))
write("config_json", "linear", json.dumps(BASE | {"rope_scaling": {"type": "linear", "factor": 2}}))
write("config_json", "mistral", json.dumps(BASE | {"architectures": ["MistralForCausalLM"],
                                                   "sliding_window": 8, "head_dim": 16}))

# A byte for the route, one for what the model says, the body.
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {
    "type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}},
                                     "b": {"enum": ["x", None]}}, "required": ["a"]}}}
CHAT = {"model": "m", "messages": [{"role": "system", "content": "Be brief."},
                                   {"role": "user", "content": [{"type": "text", "text": "Hi \u00e9"}]}]}
TURNS = CHAT["messages"] + [
    {"role": "assistant", "content": None, "reasoning": "hm", "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": [1]}"}}]},
    {"role": "tool", "tool_call_id": "1", "content": "42"}]
SAMPLING = {"temperature": 0.7, "top_p": 0.9, "top_k": 5, "min_p": 0.1, "seed": 3, "max_tokens": 9, "min_tokens": 2,
            "stop": ["x", "yz"], "logit_bias": {"5": -1.5}, "bad_words": ["bad"], "dry_multiplier": 0.8,
            "presence_penalty": 1, "repetition_penalty": 1.1, "stop_token_ids": [7], "ignore_eos": True}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}, "s": {"type": "string"}},
          "required": ["n"], "additionalProperties": False}
REQUESTS = {
    "chat": (7, 1, CHAT | {"stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}),
    "chat_tools": (7, 2, CHAT | {"messages": TURNS, "tools": [TOOL], "tool_choice": "auto", "logprobs": True,
                                 "top_logprobs": 2}),
    "chat_required": (7, 4, CHAT | {"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False,
                                    "stream": True}),
    "chat_named": (7, 3, CHAT | {"tools": [TOOL], "n": 2,
                                 "tool_choice": {"type": "function", "function": {"name": "f"}}}),
    "chat_schema": (7, 0, CHAT | {"response_format": {"type": "json_schema", "json_schema": {
        "name": "s", "strict": True, "schema": SCHEMA}}, "reasoning_effort": "low", "thinking_token_budget": 5}),
    "chat_template": (7, 0, CHAT | {"chat_template": "{{ messages | tojson }}", "chat_template_kwargs": {"x": 1},
                                    "documents": [{"text": "d"}], "return_prompt_text": True, "echo": True}),
    "completion": (0, 5, SAMPLING | {"prompt": "Hello", "logprobs": 2, "echo": True}),
    "completion_ids": (0, 0, {"prompt": [[1, 2, 3], [4]], "n": 2, "best_of": 3, "return_token_ids": True,
                              "prompt_logprobs": 1, "stream_interval": 2, "truncate_prompt_tokens": 2}),
    "completion_regex": (0, 0, {"prompt": ["a", "b"], "structured_outputs": {"regex": "a[bc]+"}}),
    "completion_choice": (0, 0, {"prompt": "a", "guided_choice": ["yes", "no"], "stream": True}),
    "completion_tag": (0, 0, {"prompt": "a", "structured_outputs": {"structural_tag": {
        "structures": [{"begin": "<f>", "schema": SCHEMA, "end": "</f>"}], "triggers": ["<f"]}}}),
    "beams": (0, 0, {"prompt": "a", "use_beam_search": True, "n": 2, "length_penalty": 0.5}),
    "embedding": (1, 0, {"input": ["a", "b"], "dimensions": 2, "encoding_format": "base64"}),
    "tokenize": (2, 0, {"prompt": "Hello", "return_token_strs": True}),
    "tokenize_chat": (2, 0, CHAT | {"tools": [TOOL]}),
    "detokenize": (3, 0, {"tokens": [72, 105, 256, 259]}),
    "render": (4, 0, SAMPLING | {"prompt": ["Hello", "there"]}),
    "render_chat": (5, 0, CHAT | SAMPLING),
}
for name, (route, script, body) in REQUESTS.items():
    write("request", name, bytes([route, script]) + json.dumps(body).encode())

# A byte of switches, the template, and after a zero byte maybe the messages.
TEMPLATES = {
    "chatml": "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + (message.content or '')|string"
              " + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "macro": "{%- macro show(x, depth=0) -%}{%- if x is mapping -%}{%- for k, v in x|items -%}{{ k }}: "
             "{{ show(v, depth + 1) }}{%- endfor -%}{%- elif x is iterable and x is not string -%}"
             "{{ x|length }}{%- else -%}{{ x }}{%- endif -%}{%- endmacro -%}{{ show(messages) }}{{ show(tools) }}",
    "namespace": "{% set ns = namespace(i=0, last='') %}{% for m in messages[::-1] %}{% set ns.i = ns.i + loop.index0 %}"
                 "{% if m.role == 'tool' %}{% continue %}{% endif %}{% set ns.last = m.role %}"
                 "{% if loop.last %}{% break %}{% endif %}{% endfor %}{{ ns.i }}{{ ns.last[:3] }}{{ ns.last[-1] }}",
    "filters": "{{ tools|tojson(indent=2) }}{{ messages|map(attribute='role')|join(', ')|upper|trim }}"
               "{{ messages|selectattr('role', 'equalto', 'user')|list|length }}{{ x.y|default('none')|string }}"
               "{{ documents|first }}{{ '%s' % 1 if false else 'a,b'.split(',')[1].strip() }}"
               "{{ messages[0].content.startswith('B') }}{{ 'abc'.replace('b', 'x').title() }}",
    "errors": "{% if messages[0].role != 'user' %}{{ raise_exception('must be user') }}{% endif %}{{ bos_token }}",
    "generation": "{% for m in messages %}{% generation %}{{ m.content }}{{ eos_token }}{% endgeneration %}{% endfor %}"
                  "{{ strftime_now('%d %b %Y') }}",
}
for name, text in TEMPLATES.items():
    write("template", name, bytes([15]) + text.encode())
write("template", "continued", bytes([16]) + TEMPLATES["chatml"].encode() + b"\0" + json.dumps(
    [{"role": "user", "content": "a"}, {"role": "assistant", "content": "go on "}]).encode())

# Bytes for the family, how it is read and the pieces, then the answer.
CALL = '{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}'
ANSWERS = {
    "hermes": f"<think>hm</think>\nLet me see.<tool_call>\n{CALL}\n</tool_call> Done.",
    "llama": CALL.replace("arguments", "parameters") + "; " + CALL,
    "pythonic": "[get_weather(city='Par\\'is', days=-2, flags=[True, None, (1, .5)]), ping()]",
    "mistral": f"[TOOL_CALLS] [{CALL}]", "mistral_args": '[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}[TOOL_CALLS]ping',
    "qwen3_coder": "<tool_call>\n<function=get_weather>\n<parameter=city>\nA <b>\n</parameter>\n<parameter=flags>"
                   "[True, 'x']</parameter>\n</function>\n</tool_call>",
    "glm": "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n</tool_call>",
    "deepseek": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n"
                '{"city": "Paris"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    "gemma": "<start_function_call>call:get_weather{city:<escape>P<escape>,flags:[1,{x:true}]}<end_function_call>",
    "harmony": "<|channel|>analysis<|message|>Need it.<|end|><|start|>assistant<|channel|>commentary to="
               'functions.get_weather <|constrain|>json<|message|>{"city": "Paris"}<|call|>',
    "list": f"[{CALL}, {CALL}]",
}
for name, text in ANSWERS.items():
    write("dialect", name, bytes([0, 1, 0x32]) + text.encode())
