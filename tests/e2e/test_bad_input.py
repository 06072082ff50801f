"""Bodies that are too big, too deep, not JSON, not UTF-8: a clear refusal, and the server serves on."""
import pytest


@pytest.fixture(autouse=True)
def still_serves(server):
    yield
    assert server.completion(prompt="x", max_tokens=1)["choices"]


def post(server, body, path="/v1/completions"):
    return server.http.post(path, content=body, headers={"Content-Type": "application/json"})


def error_of(reply, *statuses):
    assert reply.status_code in statuses, f"{reply.status_code}: {reply.text[:300]}"
    error = reply.json()["error"]
    assert error["message"] and error["type"] and error["code"] in (reply.status_code, "context_length_exceeded")
    return error["message"]


@pytest.mark.parametrize("body", [b"", b"{", b"[1,2", b'{"prompt": "a" "b"}', b"null", b'"text"', b"\x00\x01\x02", b"{'a': 1}"])
def test_not_json(server, body):
    error_of(post(server, body), 400)


def test_nesting_over_64_levels(server):
    error_of(post(server, b'{"prompt": ' + b"[" * 65 + b"]" * 65 + b"}"), 400)
    error_of(post(server, b"[" * 100_000), 400)


def test_body_over_32_mb(server):
    message = error_of(post(server, b'{"prompt": "' + b"a" * (33 << 20) + b'"}'), 413)
    assert "32" in message or str(32 << 20) in message


def test_invalid_utf8(server):
    error_of(post(server, b'{"model": "smollm2", "prompt": "\xff\xfe"}'), 400)


def test_message_names_field_value_and_limit(server):
    reply = server.http.post("/v1/completions", json={"model": server.model, "prompt": "x", "temperature": -3})
    message = error_of(reply, 400)
    assert "temperature" in message and "-3" in message and "0" in message


def test_prompt_too_long_tells_both_lengths(server):
    message = error_of(server.http.post("/v1/completions", json={"model": server.model, "prompt": [5] * 2049}), 400)
    assert "2049" in message and "2048" in message


@pytest.mark.parametrize("fields, param", [
    ({"prompt": "x", "continue_final_message": {}}, "continue_final_message"),
    ({"prompt": "x", "tools": 3}, "tools"),
    ({"prompt": "x", "messages": [{"role": "user", "content": "y"}]}, "prompt"),
    ({"messages": None}, "prompt"), ({}, "prompt")])
def test_tokenize_passes_nothing_over(server, fields, param):
    reply = server.http.post("/tokenize", json=fields)
    error_of(reply, 400)
    assert reply.json()["error"]["param"] == param
