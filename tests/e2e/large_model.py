"""A model too large for a golden file, QUIRE_MODEL's: its text against that of its small sister, whose vocabulary and
template it shares, and its fast path against its own float32 arithmetic. Part of `make test-large`.
"""
import json

import pytest
from quire_process import MODEL, ROOT

SISTER = json.loads((ROOT / "tests" / "golden-real" / "qwen2.5-coder-0.5b.json").read_text())
CASES = SISTER["cases"]
CHATS = [c for c in CASES if "messages" in c]
STEPS = 16  # float32 reads six gigabytes for each


@pytest.mark.parametrize("case", CASES, ids=[f"case{i}" for i in range(len(CASES))])
def test_prompts_have_the_ids_of_the_sister(server, case):
    text = {"messages": case["messages"]} if "messages" in case else {"prompt": case["prompt"]}
    reply = server.http.post("/tokenize", json={"model": server.model, **text})
    assert reply.status_code == 200, reply.text
    assert reply.json()["tokens"] == case["prompt_token_ids"]


def test_answers_are_right(server):
    reply = server.chat("What is the capital of France? Answer with one word.", max_tokens=8)
    assert "Paris" in reply["choices"][0]["message"]["content"], reply
    reply = server.completion(prompt="def fibonacci(n):\n", max_tokens=48)
    assert "return 1" in reply["choices"][0]["text"], reply


def first_and_margin(entry):
    """A step's likeliest token and how far the next one is behind it."""
    (first, best), (_, next_best) = sorted(entry.items(), key=lambda item: (-item[1], item[0]))[:2]
    return first, best - next_best


def steps_of(server, prompt, answer):
    reply = server.completion(prompt=prompt + answer, max_tokens=1, prompt_logprobs=5)
    entries = reply["choices"][0]["prompt_logprobs"][len(prompt):]
    return [{int(k): v["logprob"] for k, v in entry.items()} for entry in entries]


def test_fast_path_takes_the_choices_of_float32(server, start):
    exact = start(MODEL, "--dtype", "float32", "--max-model-len", "2048", "--max-num-seqs", "4")
    clear_wrong, fair, fair_right = [], 0, 0
    for case in CHATS:
        prompt = case["prompt_token_ids"]
        reply = exact.completion(prompt=prompt, max_tokens=STEPS, return_token_ids=True)
        answer = reply["choices"][0]["token_ids"]
        pairs = zip(steps_of(exact, prompt, answer), steps_of(server, prompt, answer))
        for step, (right, found) in enumerate(pairs):
            token, margin = first_and_margin(right)
            same = first_and_margin(found)[0] == token
            if margin > 0.4 and not same:
                clear_wrong.append((step, margin))
            if margin > 0.1:
                fair += 1
                fair_right += same
    print(f"fast path: same first choice at {fair_right} of {fair} steps with margin > 0.1")
    assert not clear_wrong, f"another first choice at a margin over 0.4 (step, margin): {clear_wrong}"
    assert fair_right >= 0.97 * fair
