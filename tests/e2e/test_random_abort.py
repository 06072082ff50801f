"""Many requests, of which some break off at a random point: afterwards nothing runs and no block is held.

QUIRE_SOAK_REQUESTS sets the number (`make soak`).
"""
import concurrent.futures
import os
import random

import httpx

NUM_REQUESTS = int(os.environ.get("QUIRE_SOAK_REQUESTS", "200"))
CLIENTS = 16
WORDS = "red green blue one two three sun moon sea".split()


def one_request(server, seed):
    """True when it was read to its end, False when it broke off."""
    draw = random.Random(seed)
    prompt = " ".join(draw.choices(WORDS, k=draw.randint(1, 120)))
    body = {"model": server.model, "prompt": prompt, "max_tokens": draw.randint(1, 60), "stream": True, "seed": seed,
            "temperature": draw.choice([0, 0.7, 1.5]), "top_p": draw.choice([0.5, 1]), "ignore_eos": draw.random() < 0.5}
    break_after = draw.randint(1, 40) if draw.random() < 0.4 else None
    with httpx.Client(base_url=server.url, timeout=300) as client:
        with client.stream("POST", "/v1/completions", json=body) as reply:
            assert reply.status_code == 200, reply.read()
            done = False
            for number, line in enumerate(reply.iter_lines()):
                if break_after is not None and number >= break_after:
                    return False
                done = done or line == "data: [DONE]"
            assert done, f"request {seed} ended without [DONE]"
            return True


def test_random_aborts_leave_nothing_behind(start, model):
    server = start(model, "--max-model-len", "512", "--max-num-seqs", "12", "--num-gpu-blocks-override", "40")
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        finished = list(pool.map(lambda seed: one_request(server, seed), range(NUM_REQUESTS)))
    print(f"{len(finished)} requests, {finished.count(False)} broken off")
    assert 0 < finished.count(False) < len(finished)
    server.wait_until_idle()
    assert server.metric("vllm:kv_cache_usage_perc") == 0
    assert server.completion(prompt="The sky is", max_tokens=4)["usage"]["completion_tokens"] == 4
    server.send_signal()
    assert server.wait_exit() == 0, server.log
