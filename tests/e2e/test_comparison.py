"""What `make bench` stands on: the commands that measure the engine, the client, the arithmetic of its tables. No peer is
needed, and no speed is asserted."""
import asyncio
import json
import shlex
import sys

import numpy as np
from quire_process import ROOT, run_quire

sys.path.insert(0, str(ROOT / "bench" / "compare"))
import client  # noqa: E402
import compare  # noqa: E402
import cpus  # noqa: E402
import machine  # noqa: E402
import performance  # noqa: E402
import report  # noqa: E402
import section_engine  # noqa: E402
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


def test_peaks_of_the_best_instruction():
    avx2 = {"fma_all_gmacs": 0, "vpdpbusd_all_gmacs": 0, "fma_256_all_gmacs": 50, "vpmaddubsw_256_all_gmacs": 90}
    assert machine.dot_peak(avx2, "bf16") == 50 and machine.dot_peak(avx2, "int") == 90
    older = {"fma_all_gmacs": 58, "vpdpbusd_all_gmacs": 233, "vdpbf16ps_all_gmacs": 117, "amx_int8_all_gmacs": 0}
    assert machine.dot_peak(older, "bf16") == 117 and machine.dot_peak(older, "int") == 233
    assert machine.dot_peak({}, "int") == 0
    assert section_engine.part_of(5.0, 10.0) == 0.5 and section_engine.part_of(5.0, 0.0) is None
    unknown = turns.Figure("engine", "m", "f", "tok/s", {"Quire": [5.0], "other": [4.0]}, targets={"other": 1.0}, peak_too=0.9)
    assert unknown.reached() is True and "peak:" not in report.table([unknown])


def write_all(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_quota_bounds_the_threads(tmp_path):
    assert [cpus.usable_threads(8, quota) for quota in (0, 0.25, 2.5, 3, 16)] == [8, 1, 2, 3, 8]
    assert cpus.cpu_quota(tmp_path) == 0
    v2 = tmp_path / "v2"
    write_all(v2, {"proc/self/cgroup": "0::/pod/app\n", "proc/self/mountinfo": "31 30 0:27 / /cg rw - cgroup2 cgroup rw\n",
                   "cg/pod/app/cpu.max": "max 100000\n", "cg/pod/cpu.max": "250000 100000\n"})
    assert cpus.cpu_quota(v2) == 2.5
    v1 = tmp_path / "v1"
    write_all(v1, {"proc/self/cgroup": "4:memory:/docker/1\n1:cpu,cpuacct:/docker/1\n0::/\n",
                   "proc/self/mountinfo": "33 30 0:29 /docker/1 /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n",
                   "cg/cpu/cpu.cfs_quota_us": "50000\n", "cg/cpu/cpu.cfs_period_us": "100000\n"})
    assert cpus.cpu_quota(v1) == 0.5
    (v1 / "cg/cpu/cpu.cfs_quota_us").write_text("-1\n")
    assert cpus.cpu_quota(v1) == 0


def test_the_command_repeats_what_was_measured():
    words = ["--threads", "1", "--rounds", "2", "--peers", "vLLM", "--vllm-compiled", "--vllm-bind", "0-1", "--batches", "1", "8",
             "--quire-flags=--kv-cache-dtype int8"]
    flags = compare.repeating_flags(compare.make_parser().parse_args(words))
    assert flags == "--threads 1 --rounds 2 --peers vLLM --batches 1 8 --quire-flags='--kv-cache-dtype int8' --vllm-compiled --vllm-bind=0-1"
    assert compare.make_parser().parse_args(shlex.split(flags)) == compare.make_parser().parse_args(words)

    def command(**more):
        figure = turns.Figure("server, shared prefix", "m", "f", "tok/s", {"Quire": [5.0, 6.0], "vLLM": [4.0, 4.0]}, targets={"vLLM": 1.5}, **more)
        return next(performance.rows(figure, 2))[-1]

    assert command(flags=flags) == f"`--sections prefix --models m {flags}`"
    quire = "serve --host 127.0.0.1 --port 1 --threads 1 --served-model-name m --max-model-len 1112"
    older = command(settings={"Quire": f"{quire} --dtype bfloat16", "vLLM": "serve --port 2"})
    assert older == "`--sections prefix --models m --threads 1 --rounds 2 --peers vLLM --quire-flags='--dtype bfloat16' --vllm-compiled`"
    older = command(settings={"Quire": quire, "vLLM": "serve --port 2 --enforce-eager"})
    assert older == "`--sections prefix --models m --threads 1 --rounds 2 --peers vLLM`"
