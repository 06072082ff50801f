"""Who is served when: limits of the queue, deadlines, priorities, turns of clients, a tiny KV cache."""
import concurrent.futures
import json
import socket

import pytest
from quire_process import run_quire, wait_for

ASK = {"prompt": "The sky is", "temperature": 0, "ignore_eos": True}


def post(server, headers=None, **fields):
    return server.http.post("/v1/completions", json={"model": server.model, **ASK, **fields}, headers=headers)


class Background:
    """Requests that run while the test looks on; finish() waits for their replies."""

    def __init__(self, server, *bodies, headers=None):
        self.ended = []
        self.pool = concurrent.futures.ThreadPoolExecutor(len(bodies))
        self.replies = [self.pool.submit(self.ask, server, i, body, headers) for i, body in enumerate(bodies)]

    def ask(self, server, index, body, headers):
        reply = post(server, headers, **body)
        self.ended.append(index)
        return reply

    def finish(self):
        replies = [reply.result() for reply in self.replies]
        self.pool.shutdown()
        return replies


def running(server):
    return server.metric("vllm:num_requests_running")


def waiting(server):
    return server.metric("vllm:num_requests_waiting")


@pytest.fixture(scope="module")
def narrow(start, model):
    """One sequence at a time, two may wait, for at most 100 tokens of prompts."""
    return start(model, "--max-model-len", "1024", "--max-num-seqs", "1", "--max-num-queued-reqs", "2",
                 "--max-num-queued-tokens", "100", "--scheduling-policy", "priority")


def test_full_queue_is_503_with_retry_after(narrow):
    rejected = narrow.metric("vllm:admission_rejections_total")
    first = Background(narrow, {"max_tokens": 400})
    wait_for(lambda: running(narrow) == 1, "the first request to run")
    queued = Background(narrow, {"max_tokens": 1}, {"max_tokens": 1})
    wait_for(lambda: waiting(narrow) == 2, "two requests to wait")
    reply = post(narrow, max_tokens=1)
    assert reply.status_code == 503, reply.text
    assert 1 <= int(reply.headers["retry-after"]) <= 3600
    error = reply.json()["error"]
    assert error["code"] == 503 and "limit is 2" in error["message"], error
    assert [r.status_code for r in first.finish() + queued.finish()] == [200, 200, 200]
    assert narrow.metric("vllm:admission_rejections_total") == rejected + 1
    assert post(narrow, max_tokens=1).status_code == 200


def test_a_waiting_request_of_a_gone_client_never_runs(narrow):
    prompts = narrow.metric("vllm:prompt_tokens_total")
    first = Background(narrow, {"max_tokens": 400})
    wait_for(lambda: running(narrow) == 1, "the first request to run")
    body = json.dumps({"model": narrow.model, **ASK, "prompt": "one " * 50, "max_tokens": 1}).encode()
    with socket.create_connection(("127.0.0.1", narrow.port)) as sock:
        sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                     b"Content-Length: %d\r\n\r\n" % len(body) + body)
        wait_for(lambda: waiting(narrow) == 1, "a request to wait")
    wait_for(lambda: waiting(narrow) == 0, "its client's end to be seen")
    assert running(narrow) == 1 and not first.ended
    reply, = first.finish()
    narrow.wait_until_idle()
    assert narrow.metric("vllm:prompt_tokens_total") == prompts + reply.json()["usage"]["prompt_tokens"]


def test_too_many_queued_tokens_is_503(narrow):
    first = Background(narrow, {"max_tokens": 300})
    wait_for(lambda: running(narrow) == 1, "the first request to run")
    queued = Background(narrow, {"prompt": "one " * 60, "max_tokens": 1})
    wait_for(lambda: waiting(narrow) == 1, "a request to wait")
    reply = post(narrow, prompt="two " * 60, max_tokens=1)
    assert reply.status_code == 503 and "tokens" in reply.json()["error"]["message"], reply.text
    assert post(narrow, prompt="two", max_tokens=1).status_code == 200
    assert [r.status_code for r in first.finish() + queued.finish()] == [200, 200]


def test_timeout_ends_a_request_that_runs(narrow):
    reply = post(narrow, max_tokens=900, timeout=0.3)
    assert reply.status_code == 504, reply.text
    error = reply.json()["error"]
    assert error["type"] == "TimeoutError" and error["param"] == "timeout" and error["code"] == 504
    narrow.wait_until_idle()
    assert narrow.metric("vllm:kv_cache_usage_perc") == 0
    assert post(narrow, max_tokens=2, timeout=100).status_code == 200


def test_timeout_of_a_stream_is_its_last_event(narrow):
    body = {"model": narrow.model, **ASK, "max_tokens": 900, "timeout": 0.5, "stream": True}
    with narrow.http.stream("POST", "/v1/completions", json=body) as reply:
        assert reply.status_code == 200
        events = [line[6:] for line in reply.iter_lines() if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    assert json.loads(events[-2])["error"]["code"] == 504
    assert len(events) > 3, "no token came before the time had passed"


def test_timeout_ends_a_request_that_waits(narrow):
    first = Background(narrow, {"max_tokens": 500})
    wait_for(lambda: running(narrow) == 1, "the first request to run")
    reply = post(narrow, max_tokens=1, timeout=0.2)
    assert reply.status_code == 504 and "0 tokens" in reply.json()["error"]["message"], reply.text
    assert first.finish()[0].status_code == 200


@pytest.mark.parametrize("fields", [{"timeout": 0}, {"timeout": -1}, {"timeout": "1s"}, {"priority": 1.5},
                                    {"priority": "high"}, {"user": 5}])
def test_wrong_fields_are_400(narrow, fields):
    reply = post(narrow, max_tokens=1, **fields)
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == next(iter(fields))


def test_urgent_request_overtakes_and_nobody_loses_a_token(narrow):
    alone = {n: post(narrow, max_tokens=n).json()["choices"][0]["text"] for n in (2, 200)}
    first = Background(narrow, {"max_tokens": 200, "priority": 5})
    wait_for(lambda: running(narrow) == 1, "the first request to run")
    queued = Background(narrow, {"max_tokens": 200, "priority": 3})
    wait_for(lambda: queued.ended or waiting(narrow) == 1 or narrow.metric("vllm:num_preemptions_total") > 0,
             "the second one to be there")
    urgent = post(narrow, max_tokens=2, priority=-1)
    assert not first.ended, "the urgent request waited for the first one"
    assert urgent.json()["choices"][0]["text"] == alone[2]
    replies = first.finish() + queued.finish()
    assert [r.json()["choices"][0]["text"] for r in replies] == [alone[200]] * 2


def test_priority_needs_its_policy(server):
    reply = post(server, max_tokens=1, priority=3)
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == "priority"
    assert "--scheduling-policy" in reply.json()["error"]["message"]
    assert post(server, max_tokens=1, priority=0).status_code == 200


def test_queue_timeout_is_503(start, model):
    server = start(model, "--max-model-len", "1024", "--max-num-seqs", "1", "--queue-timeout", "0.3")
    first = Background(server, {"max_tokens": 700})
    wait_for(lambda: running(server) == 1, "the first request to run")
    reply = post(server, max_tokens=1)
    assert reply.status_code == 503 and "--queue-timeout" in reply.json()["error"]["message"], reply.text
    assert int(reply.headers["retry-after"]) >= 1
    assert first.finish()[0].status_code == 200


@pytest.mark.parametrize("by", ["api-key", "user"])
def test_clients_take_turns(start, model, by):
    server = start(model, "--max-model-len", "512", "--max-num-seqs", "1", "--fair-by", by)
    crowd_headers = {"Authorization": "Bearer crowd"} if by == "api-key" else None
    fields = {"user": "crowd"} if by == "user" else {}
    crowd = Background(server, *[{"max_tokens": 40, **fields}] * 24, headers=crowd_headers)
    wait_for(lambda: waiting(server) >= 20, "the crowd to wait")
    reply = post(server, max_tokens=2, **({"user": "single"} if by == "user" else {}))
    assert reply.status_code == 200
    assert len(crowd.ended) < 22, f"{len(crowd.ended)} of the crowd were served first"
    assert all(r.status_code == 200 for r in crowd.finish())


def test_two_hundred_requests_through_eight_blocks(start, model):
    server = start(model, "--max-model-len", "128", "--num-gpu-blocks-override", "8", "--block-size", "16",
                   "--max-num-seqs", "16")
    lengths = [1 + i % 24 for i in range(200)]
    alone = post(server, max_tokens=24).json()["choices"][0]
    pieces = {n: post(server, max_tokens=n).json()["choices"][0]["text"] for n in set(lengths)}
    assert pieces[24] == alone["text"]
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        texts = list(pool.map(lambda n: post(server, max_tokens=n).json()["choices"][0]["text"], lengths))
    assert texts == [pieces[n] for n in lengths]
    server.wait_until_idle()
    assert server.metric("vllm:kv_cache_usage_perc") == 0


@pytest.mark.parametrize("limit", [("--max-step-ms", "20"), ("--max-step-ratio", "1.5")], ids=["ms", "ratio"])
def test_side_by_side_prompts_and_step_times_change_no_text(start, model, server, limit):
    other = start(model, "--max-model-len", "2048", "--served-model-name", "smollm2", "--long-prefill-token-threshold", "64", *limit)
    asks = [{"prompt": f"{i} and " * (10 * i + 1), "max_tokens": 12} for i in range(8)]
    want = [post(server, **ask).json()["choices"][0]["text"] for ask in asks]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda ask: post(other, **ask).json()["choices"][0]["text"], asks))
    assert got == want


def test_planning_ahead_changes_no_answer(start, model, server):
    other = start(model, "--max-model-len", "512", "--served-model-name", "smollm2", "--async-scheduling",
                  "--num-gpu-blocks-override", "24", "--max-num-batched-tokens", "64")
    kinds = [{}, {"temperature": 1, "seed": 3, "n": 3}, {"use_beam_search": True, "n": 3, "best_of": 3},
             {"logprobs": 2, "prompt_logprobs": 1}, {"repetition_penalty": 1.3, "bad_words": ["sea"]},
             {"ignore_eos": False, "stop": [" the"]}, {"structured_outputs": {"regex": "(yes|no), [a-z]{4,9}"}},
             {"dry_multiplier": 0.8, "frequency_penalty": 0.5}]
    asks = [{"prompt": f"{i} and " * (9 * i + 1), "max_tokens": 24, **kind} for i, kind in enumerate(kinds)] * 2
    want = [post(server, **ask).json()["choices"] for ask in asks]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        got = list(pool.map(lambda ask: post(other, **ask).json()["choices"], asks))
    assert got == want
    other.wait_until_idle()
    assert other.metric("vllm:kv_cache_usage_perc") == 0
    assert run_quire(other.process.args[0], "serve", "--no-async-scheduling", "--help").returncode == 0


def test_simulate_reports_and_its_trace_gives_the_same_again(binary, tmp_path):
    trace, steps = tmp_path / "trace.jsonl", tmp_path / "steps.jsonl"
    first = run_quire(binary, "simulate", "--num-prompts", 200, "--request-rate", 20, "--json", "--write-trace", trace,
                      "--steps", steps)
    assert first.returncode == 0, first.stderr
    report = json.loads(first.stdout)
    assert report["requests"] == 200 and report["output_tokens"] > 200
    assert len(steps.read_text().splitlines()) == report["steps"]
    again = json.loads(run_quire(binary, "simulate", "--trace", trace, "--json").stdout)
    assert again["duration_s"] == pytest.approx(report["duration_s"], rel=1e-3)
    in_turns, ahead = (json.loads(run_quire(binary, "simulate", "--trace", trace, "--json", "--host-us", 5000, *more).stdout)
                       for more in ((), ("--async-scheduling",)))
    assert ahead["output_tokens"] == in_turns["output_tokens"] == report["output_tokens"]
    assert ahead["duration_s"] < in_turns["duration_s"]
    text = run_quire(binary, "simulate", "--num-prompts", 50).stdout
    for word in ("throughput", "time to first token", "preemptions", "prefix cache"):
        assert word in text
    trace.write_text('{"arrival": 0}\n')
    broken = run_quire(binary, "simulate", "--trace", trace)
    assert broken.returncode == 1 and "line 1" in broken.stderr and "prompt_tokens" in broken.stderr
