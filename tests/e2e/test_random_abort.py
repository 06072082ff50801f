"""Many requests of all kinds, of which some break off at a random point, in a cache that holds few of them: each is
answered in full or ends with its client, and afterwards nothing runs, no block is held, and no memory was lost.

QUIRE_SOAK_REQUESTS sets the number (`make soak`).
"""
import concurrent.futures
import http.client
import json
import os
import random

import pytest
from quire_process import ROOT

NUM_REQUESTS = int(os.environ.get("QUIRE_SOAK_REQUESTS", "200"))
CLIENTS = 24
VOCAB = 512  # of the tiny model
SERVED = ["--max-model-len", "256", "--max-num-seqs", "12", "--num-gpu-blocks-override", "16", "--scheduling-policy", "priority"]
# Most that the server may grow from a fifth of the requests on.
MOST_GROWTH_MB = 8


def memory_mb(server):
    """Resident memory of the server's process."""
    status = open(f"/proc/{server.process.pid}/status").read()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def request_of(draw, model):
    """Prompts of a few salts and common beginnings, so that blocks are shared; any priority; sometimes two choices."""
    prompt = list(range(10, 10 + draw.choice([0, 20, 90]))) + [draw.randint(4, VOCAB - 1) for _ in range(draw.randint(1, 80))]
    body = {"model": model, "prompt": prompt, "max_tokens": draw.randint(1, 60), "stream": True, "seed": draw.randint(0, 9),
            "temperature": draw.choice([0, 0.7, 1.5]), "top_p": draw.choice([0.5, 1]), "ignore_eos": draw.random() < 0.5,
            "priority": draw.randint(-2, 2), "n": draw.choice([1, 1, 1, 2])}
    if draw.random() < 0.3:
        body["cache_salt"] = draw.choice("ab")
    return body


def one_request(server, seed):
    """True when it was read to its end, False when it broke off."""
    draw = random.Random(seed)
    body = request_of(draw, server.model)
    break_after = draw.randint(0, 40) if draw.random() < 0.4 else None
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
    try:
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        if break_after == 0:
            return False  # before anything came
        reply = connection.getresponse()
        assert reply.status == 200, reply.read()
        finished, done = set(), False
        for number, line in enumerate(reply):
            if break_after is not None and number >= break_after:
                return False
            if line.startswith(b"data: {"):
                chunk = json.loads(line[6:])
                assert "error" not in chunk, chunk
                finished.update(c["index"] for c in chunk["choices"] if c["finish_reason"] in ("stop", "length"))
            done = done or line.strip() == b"data: [DONE]"
        assert done and len(finished) == body["n"], f"request {seed} ended without its end: {finished}, {done}"
        return True
    finally:
        connection.close()


def soak(server, pool, seeds):
    return list(pool.map(lambda seed: one_request(server, seed), seeds))


@pytest.mark.parametrize("flags", [[], ["--async-scheduling"]], ids=["one_by_one", "async"])
def test_random_aborts_leave_nothing_behind(start, flags):
    server = start(ROOT / "tests" / "golden" / "llama", *SERVED, *flags)
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        warm_up = NUM_REQUESTS // 5
        finished = soak(server, pool, range(warm_up))
        server.wait_until_idle()
        before_mb = memory_mb(server)
        finished += soak(server, pool, range(warm_up, NUM_REQUESTS))
    server.wait_until_idle()
    grown_mb = memory_mb(server) - before_mb
    preemptions = server.metric("vllm:num_preemptions_total")
    print(f"{len(finished)} requests, {finished.count(False)} broken off, {preemptions:.0f} preemptions, "
          f"{before_mb:.1f} MB grown by {grown_mb:.1f} MB")
    assert 0 < finished.count(False) < len(finished)
    assert preemptions > 0
    assert server.metric("vllm:kv_cache_usage_perc") == 0
    assert grown_mb < MOST_GROWTH_MB
    assert server.completion(prompt="The sky is", max_tokens=4)["usage"]["completion_tokens"] == 4
    server.send_signal()
    assert server.wait_exit() == 0, server.log
