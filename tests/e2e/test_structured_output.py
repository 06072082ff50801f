"""Structured output over HTTP beyond the conformance suite: errors name the field, an answer that fits is the same
with a grammar as without, cut answers are beginnings, the batch changes nothing, the cost is small."""
import concurrent.futures
import json
import re

import httpx
import pytest


def ask(server, path="/v1/completions", expect=200, **body):
    answer = httpx.post(server.url + path, json={"prompt": "The answer is", "temperature": 0, "max_tokens": 48, **body},
                        timeout=120)
    assert answer.status_code == expect, answer.text
    return answer.json()


def text_of(answer):
    return answer["choices"][0]["text"]


@pytest.mark.parametrize("body, parts", [
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {
        "properties": {"tags": {"type": "array", "uniqueItems": True}}}}}},
     ["`response_format`", '"uniqueItems"', "#/properties/tags"]),
    ({"structured_outputs": {"json": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 5, "maximum": 4}},
                                      "required": ["n"]}}}, ["structured_outputs.json", "#/properties/n"]),
    ({"structured_outputs": {"regex": "(?=a)b"}}, ["structured_outputs.regex", "look-around"]),
    ({"guided_grammar": "root ::= missing"}, ["guided_grammar", '"missing"']),
    ({"guided_json": {"if": {}}, "guided_regex": "a"}, ["`guided_json`", "`guided_regex`"]),
])
def test_refusals_name_the_field_and_the_place(server, body, parts):
    error = ask(server, expect=400, **body)["error"]
    for part in parts:
        assert part in error["message"], error
    assert error["param"]


def test_an_answer_that_fits_is_the_same_without_a_grammar(server):
    for prompt in ("1, 2, 3, 4,", "The capital of France is", "def add(a, b):\n", "Pick one: {"):
        free = ask(server, prompt=prompt, logprobs=1, return_token_ids=True)
        bound = ask(server, prompt=prompt, logprobs=1, return_token_ids=True, structured_outputs={"regex": r"(?s:.)*"})
        assert bound["choices"][0] == free["choices"][0]
        literal = re.escape(text_of(free))
        again = ask(server, prompt=prompt, logprobs=1, return_token_ids=True, structured_outputs={"regex": literal + r"(?s:.)*"})
        assert again["choices"][0] == free["choices"][0]


def test_a_cut_answer_is_a_beginning(server):
    whole = "abcdefghijklmnop 0123456789"
    for limit in (1, 3, 7):
        answer = ask(server, max_tokens=limit, structured_outputs={"choice": [whole]})
        assert whole.startswith(text_of(answer)) and answer["choices"][0]["finish_reason"] == "length"


def test_one_allowed_token_still_has_its_logprob(server):
    answer = ask(server, structured_outputs={"regex": "[0-9]{2}"}, logprobs=2)
    logprobs = answer["choices"][0]["logprobs"]
    assert len(logprobs["tokens"]) == answer["usage"]["completion_tokens"]
    assert all(value is not None and value <= 0 for value in logprobs["token_logprobs"])
    plain = ask(server, structured_outputs={"regex": "[0-9]{2}"})
    assert text_of(plain) == text_of(answer)


def test_the_same_alone_and_in_a_batch(server):
    schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "n": {"type": "integer"}},
              "required": ["name", "n"], "additionalProperties": False}
    bodies = [{"prompt": f"Record {i}: ", "temperature": 1, "seed": i, "max_tokens": 64,
               **({"structured_outputs": {"json": schema, "disable_any_whitespace": True}} if i % 3 else {})} for i in range(16)]
    alone = [text_of(ask(server, **body)) for body in bodies]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        together = list(pool.map(lambda body: text_of(ask(server, **body)), bodies))
    assert together == alone
    for i, text in enumerate(alone):
        if i % 3 and text.endswith("}"):
            assert set(json.loads(text)) == {"name", "n"}


def test_older_names(server):
    assert text_of(ask(server, guided_choice=["red", "blue"])) in ("red", "blue")
    assert re.fullmatch("[ab]{3}", text_of(ask(server, guided_regex="[ab]{3}")))
    answer = text_of(ask(server, guided_json={"type": "array", "items": {"enum": [1, 2]}, "minItems": 2, "maxItems": 2},
                         guided_whitespace_pattern=""))
    assert re.fullmatch(r"\[[12],[12]\]", answer)


def test_structural_tag(server):
    tag = {"type": "structural_tag", "triggers": ["<n="],
           "structures": [{"begin": "<n=", "schema": {"type": "integer", "minimum": 10, "maximum": 99}, "end": ">"}]}
    answer = ask(server, prompt="<n=12> <n=34> <n=56> ", response_format=tag)
    for number in re.findall(r"<n=(.*?)>", text_of(answer)):
        assert re.fullmatch("[0-9]{2}", number)


def test_stop_string_inside(server):
    answer = ask(server, structured_outputs={"choice": ["one two three"]}, stop=[" tw"])
    assert text_of(answer) == "one" and answer["choices"][0]["stop_reason"] == " tw"
