"""What `make bench` stands on: the commands that measure the engine, the client, the arithmetic of its tables. No peer is
needed, and no speed is asserted."""
import asyncio
import json
import sys

import numpy as np
from quire_process import ROOT, run_quire

sys.path.insert(0, str(ROOT / "bench" / "compare"))
import client  # noqa: E402
import report  # noqa: E402
import section_quality  # noqa: E402
import turns  # noqa: E402

TOKENS = [(7919 * i + 13) % 40000 + 100 for i in range(64)]


def logits(binary, model, folder, tokens, *flags):
    ids, out = folder / "ids.bin", folder / "logits.bin"
    ids.write_bytes(np.array(tokens, np.int32).tobytes())
    done = run_quire(binary, "bench-logits", "--model", model, "--tokens", ids, "--out", out, *flags)
    assert done.returncode == 0, done.stderr
    return np.fromfile(out, np.float32)


def test_logits_are_those_of_the_server(binary, model, server, tmp_path):
    window = len(TOKENS)
    rows = logits(binary, model, tmp_path, TOKENS + TOKENS, "--window", window).reshape(2, window // 2 - 1, -1).astype(np.float64)
    assert (rows[0] == rows[1]).all()  # every window begins with an empty cache
    told = server.completion(prompt=TOKENS, max_tokens=1, prompt_logprobs=1)["choices"][0]["prompt_logprobs"]
    for i, row in enumerate(rows[0]):
        position = window // 2 + i  # speaks of the token after it
        token = TOKENS[position + 1]
        logprob = row[token] - row.max() - np.log(np.exp(row - row.max()).sum())
        assert abs(logprob - told[position + 1][str(token)]["logprob"]) < 1e-4


def test_tokens_outside_the_vocabulary_are_refused(binary, model, tmp_path):
    ids = tmp_path / "ids.bin"
    ids.write_bytes(np.array([1, 2, 3, 10**6], np.int32).tobytes())
    done = run_quire(binary, "bench-logits", "--model", model, "--tokens", ids, "--out", tmp_path / "out", "--window", 4)
    assert done.returncode == 1 and "token 1000000" in done.stderr
    done = run_quire(binary, "bench-logits", "--model", model, "--tokens", ids, "--out", tmp_path / "out", "--window", 8)
    assert done.returncode == 1 and "fewer than 8 tokens" in done.stderr


def test_the_engine_is_measured_alone_and_in_batches(binary, model):
    done = run_quire(binary, "bench-engine", "--model", model, "--prefill", 16, "--context", 40, "--decode", 2, "--batch", 3, "--repeat", 1)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["batch"] == 3 and found["prefill_tok_s"] > 0 and found["decode_tok_s"] > 0


def test_the_client_counts_what_the_server_sends(server):
    requests = [(TOKENS[:n], 3 + n % 5) for n in range(8, 20)]
    answers, seconds = asyncio.run(client.run_clients(server.port, requests, 4, model=server.model))
    assert sorted((a.prompt_tokens, a.tokens) for a in answers) == sorted((len(p), n) for p, n in requests)
    for answer in answers:
        assert 1 <= len(answer.times) and answer.sent < answer.times[0] <= answer.end <= answer.sent + seconds


def test_targets_of_figures():
    def figure(ours, **more):
        return turns.Figure("engine", "m", "f", "tok/s", {"Quire": [ours], "other": [100.0]}, **more)

    assert figure(300.0, targets={"other": 2.5}).reached() is True
    assert figure(200.0, targets={"other": 2.5}).reached() is False
    assert figure(200.0, targets={"other": 2.5}, peaks={"Quire": 0.7}, peak_instead=0.6).reached() is True
    assert figure(200.0, targets={"other": 1.0}, peaks={"Quire": 0.7}, peak_too=0.9).reached() is False
    assert figure(50.0, targets={"other": 1.5}, higher_is_better=False).reached() is True
    assert figure(50.0, limit=40.0, higher_is_better=False).reached() is False
    assert figure(50.0, targets={"absent": 2.0}).reached() is None
    row = report.table([figure(300.0, missing={"absent": "not installed"}, targets={"other": 2.5})]).splitlines()[-1]
    assert "missing: not installed" in row and "| 3.00 |" in row and "| yes |" in row


def test_divergence_of_rounded_distributions():
    random = np.random.default_rng(1)
    row = random.standard_normal(1000).astype(np.float32) * 3
    exact = row - np.log(np.exp(row.astype(np.float64)).sum())
    rounded = section_quality.encoded(row)
    assert abs(rounded - np.maximum(exact, exact.max() - section_quality.REACH)).max() < 2e-4
    assert abs(section_quality.divergence(rounded, rounded)) == 0
    other = row + random.standard_normal(1000).astype(np.float32) * 0.1
    other_exact = other - np.log(np.exp(other.astype(np.float64)).sum())
    expected = (np.exp(exact) * (exact - other_exact)).sum()
    assert abs(section_quality.divergence(rounded, section_quality.encoded(other)) - expected) < 0.02 * expected
