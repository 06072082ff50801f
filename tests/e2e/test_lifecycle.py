"""Start and end of a server: readiness, draining, signals, clients that go away."""
import json
import signal
import socket

import httpx
import pytest
from quire_process import wait_for

LONG = {"prompt": "Once upon a time", "max_tokens": 400, "ignore_eos": True, "stream": True, "temperature": 0}


def open_stream(server, **fields):
    """A streaming completion of which the first event has arrived: the connection and its file."""
    body = json.dumps({"model": server.model, **LONG, **fields}).encode()
    sock = socket.create_connection(("127.0.0.1", server.port))
    sock.settimeout(120)
    sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                 b"Content-Length: %d\r\n\r\n" % len(body) + body)
    file = sock.makefile("rb")
    assert b"200" in file.readline()
    while not file.readline().startswith(b"data:"):
        pass
    return sock, file


def start_small(start, model, *flags):
    return start(model, "--max-model-len", "1024", "--max-num-seqs", "8", *flags)


def test_log_tells_each_stage_and_the_sizes(server):
    log = server.log
    for word in ("model", "KV", "blocks", str(server.port)):
        assert word in log, f"the start log does not say {word!r}:\n{log}"


def test_sigterm_lets_running_requests_finish(start, model):
    server = start_small(start, model, "--shutdown-timeout", "300")
    sock, file = open_stream(server)
    server.send_signal(signal.SIGTERM)
    rest = file.read()
    assert b"[DONE]" in rest
    assert b'"finish_reason":"length"' in rest.replace(b" ", b"")
    sock.close()
    assert server.wait_exit() == 0, server.log


def test_draining_server_takes_no_new_request(start, model):
    server = start_small(start, model)
    sock, file = open_stream(server)
    server.send_signal(signal.SIGTERM)

    def refuses():
        try:
            with httpx.Client(base_url=server.url, timeout=30) as client:
                return client.post("/v1/completions", json={"model": server.model, "prompt": "x", "max_tokens": 1}).status_code == 503
        except httpx.TransportError:
            return True

    wait_for(refuses, "new requests to be refused")
    assert b"[DONE]" in file.read()
    sock.close()
    assert server.wait_exit() == 0, server.log


def test_sigint_of_an_idle_server_exits_0(start, model):
    server = start_small(start, model)
    server.send_signal(signal.SIGINT)
    assert server.wait_exit() == 0, server.log


def test_second_signal_ends_at_once(start, model):
    server = start_small(start, model)
    sock, file = open_stream(server, max_tokens=900)
    server.send_signal(signal.SIGTERM)
    wait_for(lambda: "taking no new requests" in server.log, "the log to tell of the first signal")
    server.send_signal(signal.SIGTERM)
    server.wait_exit()
    assert b"[DONE]" not in file.read(), "the stream was finished in spite of the second signal"
    sock.close()


def test_shutdown_timeout_ends_what_still_runs(start, model):
    server = start_small(start, model, "--shutdown-timeout", "0.1")
    sock, file = open_stream(server, max_tokens=900)
    server.send_signal(signal.SIGTERM)
    assert server.wait_exit() == 0, server.log
    sock.close()


@pytest.mark.parametrize("how", ["close", "reset", "half-close"])
def test_gone_client_aborts_its_request(server, how):
    sock, file = open_stream(server, max_tokens=1500)
    assert server.metric("vllm:num_requests_running") == 1
    if how == "half-close":
        sock.shutdown(socket.SHUT_WR)
    else:
        if how == "reset":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        file.close()
        sock.close()
    before = server.metric("vllm:generation_tokens_total")
    server.wait_until_idle()
    assert server.metric("vllm:generation_tokens_total") < before + 1400, "the request ran to its end"
    sock.close()


def test_gone_client_of_a_plain_request_aborts_it(server):
    body = json.dumps({"model": server.model, **LONG, "stream": False, "max_tokens": 1500}).encode()
    sock = socket.create_connection(("127.0.0.1", server.port))
    sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                 b"Content-Length: %d\r\n\r\n" % len(body) + body)
    wait_for(lambda: server.metric("vllm:num_requests_running") == 1, "the request to run")
    before = server.metric("vllm:generation_tokens_total")
    sock.close()
    server.wait_until_idle()
    assert server.metric("vllm:generation_tokens_total") < before + 1400


def test_full_kv_cache_preempts_and_every_request_is_answered(start, model):
    """Eight requests of 200 tokens through a cache of 16 blocks of 32: they take turns."""
    import concurrent.futures
    server = start(model, "--max-model-len", "256", "--num-gpu-blocks-override", "16", "--max-num-seqs", "8")
    alone = server.completion(prompt="The sky is", max_tokens=200, ignore_eos=True)["choices"][0]["text"]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: server.completion(prompt="The sky is", max_tokens=200, ignore_eos=True), range(8)))
    assert {a["choices"][0]["text"] for a in answers} == {alone}
    server.wait_until_idle()
    assert server.metric("vllm:kv_cache_usage_perc") == 0


def test_same_answer_alone_and_under_load(server):
    """Greedy text and log-probabilities do not depend on what else runs."""
    import concurrent.futures
    ask = {"prompt": "The capital of France is", "max_tokens": 24, "logprobs": 3, "ignore_eos": True}
    alone = server.completion(**ask)["choices"][0]
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        others = [pool.submit(server.completion, prompt=f"{i} " * (5 + 7 * i), max_tokens=10 + 5 * i, temperature=1, seed=i)
                  for i in range(11)]
        loaded = server.completion(**ask)["choices"][0]
        for other in others:
            other.result()
    assert loaded["text"] == alone["text"]
    assert loaded["logprobs"] == alone["logprobs"]


def test_stream_cut_by_the_drain_limit_ends_with_an_error_event(start, model):
    server = start(model, "--max-model-len", "8000", "--shutdown-timeout", "0.2")
    sock, file = open_stream(server, max_tokens=7000)
    server.send_signal(signal.SIGTERM)
    rest = file.read()
    assert b'"error"' in rest and b"[DONE]" in rest, rest[-500:]
    sock.close()
    assert server.wait_exit() == 0, server.log
