"""Several answers per prompt: n, best_of, beam search; and prefixes that are found again."""
import pytest
from quire_process import ROOT

PROMPT = "Once upon a time there was a small"


def texts(reply):
    return [choice["text"] for choice in reply["choices"]]


def sample(server, **fields):
    return server.completion(**{"prompt": PROMPT, "temperature": 1, "seed": 11, "max_tokens": 24, "ignore_eos": True, **fields})


@pytest.fixture(scope="module")
def small(start, model):
    """So few blocks that the answers of one request do not fit side by side."""
    return start(model, "--max-model-len", "256", "--num-gpu-blocks-override", "8", "--max-num-seqs", "6")


def test_the_first_answer_is_what_one_answer_is(server):
    several, one = sample(server, n=4), sample(server)
    assert texts(several)[0] == texts(one)[0]
    assert len(set(texts(several))) == 4
    assert several["usage"]["prompt_tokens"] == one["usage"]["prompt_tokens"]
    assert several["usage"]["completion_tokens"] == 4 * 24


def test_answers_do_not_depend_on_room(server, small):
    fields = {"n": 12, "max_tokens": 60}
    assert texts(sample(small, **fields)) == texts(sample(server, **fields))
    small.wait_until_idle()
    assert small.metric("vllm:kv_cache_usage_perc") == 0


def test_one_answer_stops_and_the_others_go_on(server):
    free = texts(sample(server, n=3))
    stop = free[1][10:16]
    assert stop not in free[0] + free[2], "choose another seed"
    stopped = sample(server, n=3, stop=[stop])
    assert texts(stopped) == [free[0], free[1][:free[1].index(stop)], free[2]]
    assert [c["finish_reason"] for c in stopped["choices"]] == ["length", "stop", "length"]


def test_logprobs_and_echo_of_every_answer(server):
    reply = sample(server, n=3, echo=True, logprobs=1, max_tokens=5)
    alone = sample(server, echo=True, logprobs=1, max_tokens=5)["choices"][0]["logprobs"]
    prompt_tokens = reply["usage"]["prompt_tokens"]
    for choice in reply["choices"]:
        lists = choice["logprobs"]
        assert len(lists["tokens"]) == prompt_tokens + 5
        assert lists["token_logprobs"][:prompt_tokens + 1][:-1] == alone["token_logprobs"][:prompt_tokens]
    assert reply["choices"][0]["logprobs"] == alone


def test_best_of_gives_the_best_by_mean_logprob(server):
    made = sample(server, n=6, logprobs=0, ignore_eos=False)

    def mean(choice):
        values = choice["logprobs"]["token_logprobs"]
        return sum(values) / len(values)

    want = [c["text"] for c in sorted(made["choices"], key=mean, reverse=True)][:2]
    best = sample(server, n=2, best_of=6, ignore_eos=False)
    assert texts(best) == want
    assert best["usage"]["completion_tokens"] == made["usage"]["completion_tokens"]
    refused = server.http.post("/v1/completions", json={"model": server.model, "prompt": "x", "n": 2, "best_of": 1})
    assert refused.status_code == 400 and refused.json()["error"]["param"] == "best_of"


def naive_beams(server, ids, width, steps, length_penalty):
    """Beam search by requests for one token each."""
    beams = [([], 0.0)]
    for _ in range(steps):
        offers = []
        for tokens, total in beams:
            reply = server.completion(prompt=ids + tokens, max_tokens=1, logprobs=2 * width, ignore_eos=True,
                                      return_tokens_as_token_ids=True)
            top = reply["choices"][0]["logprobs"]["top_logprobs"][0]
            ranked = sorted(top.items(), key=lambda item: -item[1])[:2 * width]
            offers += [(tokens + [int(name.removeprefix("token_id:"))], total + value) for name, value in ranked]
        beams = sorted(offers, key=lambda offer: -offer[1])[:width]
    return [tokens for tokens, total in sorted(beams, key=lambda b: -b[1] / (len(ids) + steps) ** length_penalty)]


@pytest.mark.parametrize("which", ["server", "small"])
def test_beam_search_as_by_hand(which, request, server):
    ids = server.http.post("/tokenize", json={"model": server.model, "prompt": PROMPT}).json()["tokens"]
    want = naive_beams(server, ids, 3, 6, 0.7)
    under_test = request.getfixturevalue(which)
    found = under_test.completion(prompt=ids, n=3, use_beam_search=True, length_penalty=0.7, max_tokens=6, ignore_eos=True,
                                  logprobs=1, return_token_ids=True)
    assert [choice["token_ids"] for choice in found["choices"]] == want
    assert all(len(choice["logprobs"]["token_logprobs"]) == 6 for choice in found["choices"])
    chat = under_test.chat("Name a colour.", n=2, use_beam_search=True, max_tokens=5)
    assert len({choice["message"]["content"] for choice in chat["choices"]}) == 2
    under_test.wait_until_idle()


@pytest.mark.parametrize("folder", ["mamba", "mamba2", "qwen3_next", "lfm2"])
def test_recurrent_models_find_prefixes_and_make_several_answers(start, folder):
    server = start(ROOT / "tests" / "golden" / folder, "--dtype", "float32", "--block-size", "8", "--mamba-block-size", "16",
                   "--enable-prompt-tokens-details", "--max-model-len", "256")
    fields = {"prompt": [4 + i * 7 % 300 for i in range(45)], "n": 3, "temperature": 1, "seed": 3, "max_tokens": 12,
              "ignore_eos": True, "return_token_ids": True}
    first, second = server.completion(**fields), server.completion(**fields)
    assert first["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] == 32
    ids = [[choice["token_ids"] for choice in reply["choices"]] for reply in (first, second)]
    assert ids[0] == ids[1]
    assert server.metric("vllm:prefix_cache_hits_total") == 32
    assert server.http.post("/reset_prefix_cache").json() == {"success": True}
    assert server.completion(**fields)["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
