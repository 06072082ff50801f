"""Tools and reasoning with a real model: forced calls, calls in auto mode, a thinking budget, the SDK's helpers."""
import json
import re

import openai
import pydantic
import pytest

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Weather of a city", "parameters": {
        "type": "object", "required": ["city", "unit"], "additionalProperties": False, "properties": {
            "city": {"type": "string", "enum": ["Paris", "Oslo"]}, "unit": {"type": "string", "enum": ["C", "F"]}}}}}
ASK = [{"role": "user", "content": "What is the weather in Paris?"}]
CALL = '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo", "unit": "C"}}</tool_call>'
THINKING = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}")


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="unused", max_retries=0)


@pytest.fixture(scope="module")
def thinker(start, model):
    return start(model, "--max-model-len", "2048", "--chat-template", THINKING)


def chat(server, **fields):
    reply = server.http.post("/v1/chat/completions", json={"messages": ASK, "temperature": 0, **fields})
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_a_call_in_auto_mode(server):
    reply = chat(server, tools=[WEATHER], structured_outputs={"choice": ["Sure. " + CALL]}, max_tokens=80)
    (choice,) = reply["choices"]
    assert choice["finish_reason"] == "tool_calls" and choice["message"]["content"] == "Sure. "
    (call,) = choice["message"]["tool_calls"]
    assert call["function"] == {"name": "get_weather", "arguments": '{"city": "Oslo", "unit": "C"}'}


def test_a_streamed_call_in_auto_mode_equals_the_plain_one(server):
    fields = dict(messages=ASK, tools=[WEATHER], structured_outputs={"choice": [CALL]}, max_tokens=80, temperature=0, stream=True)
    arguments, names, finish = "", [], None
    with server.http.stream("POST", "/v1/chat/completions", json=fields) as reply:
        for line in reply.iter_lines():
            if not line.startswith("data: {"):
                continue
            choice = json.loads(line[6:])["choices"][0]
            assert not choice["delta"].get("content")
            for call in choice["delta"].get("tool_calls", []):
                names += [call["function"]["name"]] if "name" in call["function"] else []
                arguments += call["function"]["arguments"]
            finish = choice["finish_reason"] or finish
    assert (names, arguments, finish) == (["get_weather"], '{"city": "Oslo", "unit": "C"}', "tool_calls")


def test_none_keeps_a_call_as_text(server):
    reply = chat(server, tools=[WEATHER], tool_choice="none", structured_outputs={"choice": [CALL]}, max_tokens=80)
    assert reply["choices"][0]["message"]["content"] == CALL


def test_the_sdk_s_stream_helper_builds_the_call(client, server):
    named = {"type": "function", "function": {"name": "get_weather"}}
    with client.chat.completions.stream(model=server.model, messages=ASK, tools=[WEATHER], tool_choice=named,
                                        max_tokens=80, temperature=0) as stream:
        message = stream.get_final_completion().choices[0].message
    (call,) = message.tool_calls
    assert call.function.name == "get_weather"
    assert set(json.loads(call.function.arguments)) == {"city", "unit"}


def test_the_sdk_parses_a_pydantic_tool(client, server):
    class Lamp(pydantic.BaseModel):
        on: bool

    reply = client.chat.completions.parse(model=server.model, messages=ASK, tools=[openai.pydantic_function_tool(Lamp)],
                                          tool_choice="required", parallel_tool_calls=False, max_tokens=80, temperature=0)
    (call,) = reply.choices[0].message.tool_calls
    assert isinstance(call.function.parsed_arguments, Lamp)


def test_forced_calls_with_n_are_each_whole(server):
    reply = chat(server, tools=[WEATHER], tool_choice="required", parallel_tool_calls=False, n=3, temperature=1, seed=5,
                 max_tokens=120)
    for choice in reply["choices"]:
        arguments = json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"])
        assert arguments["city"] in ("Paris", "Oslo") and arguments["unit"] in "CF"


def test_an_unknown_parser_is_refused_at_the_start(binary, model):
    from quire_process import run_quire
    for flag in ("--tool-call-parser", "--reasoning-parser"):
        done = run_quire(binary, "serve", model, flag, "nope")
        assert done.returncode == 1 and re.search(rf"{flag} must be .*'nope'", done.stderr), done.stderr


def test_a_thinking_budget_ends_the_thinking(thinker):
    for budget in (0, 1, 8):
        reply = chat(thinker, thinking_token_budget=budget, max_tokens=40, ignore_eos=True, return_token_ids=True)
        message = reply["choices"][0]["message"]
        ids = thinker.http.post("/tokenize", json={"prompt": "</think>", "add_special_tokens": False}).json()["tokens"]
        tokens = reply["choices"][0]["token_ids"]
        assert tokens[budget:budget + len(ids)] == ids, (budget, tokens)
        assert message["content"] and "</think>" not in message["content"]
        assert (message["reasoning"] or "") == (message["reasoning_content"] or "")


def test_usage_counts_the_tokens_of_the_thinking(thinker):
    fields = dict(thinking_token_budget=8, max_tokens=40, ignore_eos=True)
    plain = chat(thinker, **fields)["usage"]
    assert plain["completion_tokens"] == 40
    assert plain["completion_tokens_details"] == {"reasoning_tokens": 8}
    body = {"messages": ASK, "temperature": 0, "stream": True, "stream_options": {"include_usage": True}, **fields}
    with thinker.http.stream("POST", "/v1/chat/completions", json=body) as reply:
        chunks = [json.loads(line[6:]) for line in reply.iter_lines() if line.startswith("data: {")]
    assert chunks[-1]["usage"] == plain
    assert chat(thinker, thinking_token_budget=0, max_tokens=20)["usage"]["completion_tokens_details"]["reasoning_tokens"] == 0


def test_a_forced_call_is_written_in_the_family_s_form(server):
    reply = chat(server, tools=[WEATHER], tool_choice="required", parallel_tool_calls=False, max_tokens=120, logprobs=True)
    (choice,) = reply["choices"]
    text = "".join(token["token"] for token in choice["logprobs"]["content"])
    assert re.match(r'<tool_call>\n\{\s*"name":\s*"get_weather"', text) and "</tool_call>" in text, text
    assert len(choice["message"]["tool_calls"]) == 1 and choice["message"]["content"] is None


def test_a_forced_call_comes_after_the_thinking(thinker):
    reply = chat(thinker, tools=[WEATHER], tool_choice="required", parallel_tool_calls=False, thinking_token_budget=12,
                 max_tokens=160)
    (choice,) = reply["choices"]
    assert choice["message"]["reasoning"]
    assert json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"])["city"] in ("Paris", "Oslo")
    assert choice["finish_reason"] == "tool_calls"


def test_structured_output_comes_after_the_thinking(thinker):
    reply = chat(thinker, structured_outputs={"choice": ["yes", "no"]}, thinking_token_budget=5, max_tokens=40)
    message = reply["choices"][0]["message"]
    assert message["content"] in ("yes", "no") and message["reasoning"]
