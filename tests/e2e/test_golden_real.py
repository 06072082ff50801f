"""A real model against what transformers computes from the same file, dequantized to float32.

The model is the default one or QUIRE_MODEL's (`make test-large` goes through them); its golden file is the one that
names it.
"""
import json

import pytest
from quire_process import MODEL, ROOT


def golden_of(model_file):
    files = sorted((ROOT / "tests" / "golden-real").glob("*.json"))
    loaded = [json.loads(f.read_text()) for f in files if f.name != "prompts.json"]
    return next((g for g in loaded if g["model"] == model_file), None)


GOLDEN = golden_of(MODEL.name)
if GOLDEN is None:
    pytest.skip(f"no golden file names {MODEL.name}", allow_module_level=True)
CASES = GOLDEN["cases"]
EOS = GOLDEN["eos_token_id"]
LOGPROB_TOLERANCE = 2e-3  # other order of float32 additions over 30 layers
IDS = [f"case{i}" for i in range(len(CASES))]
TEXTS = [c for c in CASES if "prompt" in c]
CHATS = [c for c in CASES if "messages" in c]


def score(server, ids, top):
    """For each token of ids but the first: {token id: log-probability} of the top ones and the token itself."""
    reply = server.completion(prompt=ids, max_tokens=1, prompt_logprobs=top)
    entries = reply["choices"][0]["prompt_logprobs"]
    assert len(entries) == len(ids) and entries[0] is None
    return [{int(k): v["logprob"] for k, v in entry.items()} for entry in entries[1:]]


def teacher_forced(server, case, top=5):
    """The logprobs at each step of the golden continuation, the golden tokens fed as the prompt."""
    prompt, answer = case["prompt_token_ids"], case["greedy_token_ids"]
    scores = score(server, prompt + answer, top)
    return scores[:len(prompt) - 1], scores[len(prompt) - 1:]


def first_choice(entry):
    return min(entry, key=lambda token: (-entry[token], token))


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_float32_logprobs_equal_the_golden_ones(float32_server, case):
    prompt_scores, step_scores = teacher_forced(float32_server, case)
    for token, entry, golden in zip(case["prompt_token_ids"][1:], prompt_scores, case["prompt_logprobs"][1:]):
        assert abs(entry[token] - golden) <= LOGPROB_TOLERANCE
    for entry, golden in zip(step_scores, case["top5_logprobs"]):
        found = sorted(entry.values(), reverse=True)[:5]
        for value, (token, expected) in zip(found, golden):
            assert abs(value - expected) <= LOGPROB_TOLERANCE  # by rank: near ties may swap
            if token in entry:
                assert abs(entry[token] - expected) <= LOGPROB_TOLERANCE


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_float32_greedy_tokens_equal_the_golden_ones(float32_server, case):
    golden = case["greedy_token_ids"]
    reply = float32_server.completion(prompt=case["prompt_token_ids"], max_tokens=len(golden), return_token_ids=True)
    choice = reply["choices"][0]
    unsure = next((i for i, m in enumerate(case["top1_margin"]) if m <= 2 * LOGPROB_TOLERANCE), len(golden))
    certain = golden[:unsure]  # at a close call another order of additions may take the other token
    assert choice["token_ids"][:unsure] == certain
    if unsure == len(golden):
        assert choice["finish_reason"] == ("stop" if golden[-1] == EOS else "length")
        assert choice["text"] == case["greedy_text"]


if CHATS:
    @pytest.mark.parametrize("case", CHATS)
    def test_chat_prompt_has_the_golden_ids(server, case):
        reply = server.http.post("/v1/chat/completions", json={
            "model": server.model, "messages": case["messages"], "max_tokens": 1, "temperature": 0, "return_token_ids": True})
        assert reply.status_code == 200, reply.text
        assert reply.json()["prompt_token_ids"] == case["prompt_token_ids"]
else:  # a base model
    def test_chat_without_a_template_is_refused_with_advice(server):
        reply = server.http.post("/v1/chat/completions", json={
            "model": server.model, "messages": [{"role": "user", "content": "Hello"}]})
        assert reply.status_code == 400
        assert "--chat-template" in reply.json()["error"]["message"]


@pytest.mark.parametrize("case", TEXTS)
def test_text_prompt_has_the_golden_ids(server, case):
    reply = server.http.post("/tokenize", json={"model": server.model, "prompt": case["prompt"]})
    assert reply.status_code == 200, reply.text
    assert reply.json()["tokens"] == case["prompt_token_ids"]


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_prompt_ids_stand_for_the_rendered_text(server, case):
    reply = server.http.post("/detokenize", json={"model": server.model, "tokens": case["prompt_token_ids"]})
    assert reply.status_code == 200, reply.text
    assert reply.json()["prompt"].removeprefix("<bos>") == case["rendered"]


def check_fast_path(server, record):
    """Same first choice where the golden margin is clear; how far log-probabilities are apart is reported."""
    differences, clear_wrong, fair, fair_right = [], [], 0, 0
    for number, case in enumerate(CASES):
        _, steps = teacher_forced(server, case)
        for step, (entry, token, margin, golden) in enumerate(
                zip(steps, case["greedy_token_ids"], case["top1_margin"], case["top5_logprobs"])):
            differences.append(abs(entry[token] - golden[0][1]))
            same = first_choice(entry) == token
            if margin > 0.4 and not same:
                clear_wrong.append((number, step, margin))
            if margin > 0.1:
                fair += 1
                fair_right += same
    mean = sum(differences) / len(differences)
    print(f"fast path: same first choice at {fair_right} of {fair} steps with margin > 0.1; "
          f"log-probability difference mean {mean:.4f}, largest {max(differences):.4f}")
    record("mean_logprob_difference", mean)
    assert not clear_wrong, f"another first choice at a margin over 0.4 (case, step, margin): {clear_wrong}"
    assert fair_right >= 0.97 * fair


def test_fast_path_takes_the_golden_choices(server, record_property):
    check_fast_path(server, record_property)


def test_fast_path_fed_one_token_at_a_time(start, model, record_property):
    """The same through steps of one token, as in decoding; and to the bit what larger steps give."""
    one = start(model, "--max-model-len", "2048", "--max-num-batched-tokens", "1", "--max-num-seqs", "1")
    check_fast_path(one, record_property)


def test_step_size_does_not_change_a_bit(server, start, model):
    one = start(model, "--max-model-len", "2048", "--max-num-batched-tokens", "7", "--max-num-seqs", "4")
    for case in CASES[:4]:
        ids = case["prompt_token_ids"] + case["greedy_token_ids"]
        assert score(one, ids, 5) == score(server, ids, 5)
