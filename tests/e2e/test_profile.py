"""--profile: a Chrome trace of every thread, written at the end, at SIGTERM and on request."""
import json
import signal
import subprocess

import pytest
from quire_process import Quire, run_quire, wait_for

PHASES = {"step", "plan", "prepare", "forward", "layer", "logits", "sample", "masks", "apply", "output"}
LLAMA_OPS = {"embed", "norm", "linear", "door", "activate", "rope_table", "rope_and_store", "attention", "wait"}


def read_trace(path):
    """Spans by thread name; checks the format and that spans nest."""
    trace = json.loads(path.read_text())
    names, threads = {}, {}
    for event in trace["traceEvents"]:
        assert event["ph"] in ("M", "X")
        if event["ph"] == "M":
            if event["name"] == "thread_name":
                names[event["tid"]] = event["args"]["name"]
            continue
        assert event["dur"] >= 0 and event["ts"] >= 0
        threads.setdefault(event["tid"], []).append(event)
    for spans in threads.values():
        open_ends = []
        for span in spans:  # in the order of their beginnings
            begin, end = span["ts"], span["ts"] + span["dur"]
            while open_ends and open_ends[-1] <= begin + 0.002:  # microseconds, rounded to 3 digits
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1] + 0.002, f"{span} crosses another span"
            open_ends.append(end)
    return [(names[tid], spans) for tid, spans in threads.items()]


def kinds(spans):
    return {span["name"] for span in spans}


def test_generate_writes_a_trace_and_a_summary(binary, model, tmp_path):
    path = tmp_path / "trace.json"
    done = run_quire(binary, "generate", model, "-p", "The sky is", "-n", "8", "--temperature", "0", "--threads", "2",
                     "--profile", path)
    assert done.returncode == 0, done.stderr
    threads = read_trace(path)
    engine = next(spans for name, spans in threads if name == "engine")
    assert PHASES | LLAMA_OPS <= kinds(engine)
    layers = {span["args"]["layer"] for span in engine if span["name"] == "attention"}
    assert layers == set(range(30))
    assert any(name.startswith("kernel-") and "linear" in kinds(spans) for name, spans in threads)
    assert any(name == "output" and "output" in kinds(spans) for name, spans in threads)
    assert "of 1 tokens" in done.stderr and "matrix products and attention; all else" in done.stderr


def test_bench_engine_writes_a_trace(binary, model, tmp_path):
    path = tmp_path / "trace.json"
    done = run_quire(binary, "bench-engine", model, "--prefill", "32", "--decode", "2", "--context", "8", "--batch", "3",
                     "--repeat", "1", "--profile", path)
    assert done.returncode == 0, done.stderr
    spans = [span for _, spans in read_trace(path) for span in spans]
    rows = {span["args"]["rows"] for span in spans if span["name"] == "forward"}
    assert {32, 8, 3} <= rows  # prefill, the context of one sequence, decode
    assert {"step", "linear", "attention"} <= kinds(spans)
    assert "steps of 3 tokens" in done.stderr and "steps of 32 tokens" in done.stderr


def test_a_file_that_cannot_be_written_is_told_at_the_start(binary, model, tmp_path):
    done = run_quire(binary, "generate", model, "-p", "x", "-n", "1", "--profile", tmp_path / "no" / "trace.json")
    assert done.returncode == 1 and "--profile" in done.stderr


def test_bench_engine_writes_at_sigterm(binary, model, tmp_path):
    path = tmp_path / "trace.json"
    process = subprocess.Popen([str(binary), "bench-engine", str(model), "--decode", "4", "--repeat", "1000",
                                "--profile", str(path)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(path.exists, "the profile to be opened")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
    finally:
        process.kill()
        process.wait()
    read_trace(path)


@pytest.fixture
def profiled(binary, model, tmp_path):
    server = Quire(binary, model, ("--max-model-len", "512", "--profile", tmp_path / "trace.json"), tmp_path / "log")
    server.wait_until_ready()
    yield server, tmp_path / "trace.json"
    server.kill()


def test_serve_writes_at_sigterm(profiled):
    server, path = profiled
    server.completion(prompt="The sky is", max_tokens=4)
    server.send_signal()
    assert server.wait_exit() == 0
    engine = next(spans for name, spans in read_trace(path) if name == "engine")
    assert PHASES <= kinds(engine)
    assert "matrix products and attention" in server.log


def test_start_and_stop_on_request(profiled):
    server, path = profiled
    server.completion(prompt="One", max_tokens=6, ignore_eos=True)
    assert server.http.post("/start_profile").status_code == 200
    server.completion(prompt="Two", max_tokens=3, ignore_eos=True)
    server.wait_until_idle()
    assert server.http.post("/stop_profile").status_code == 200
    engine = next(spans for name, spans in read_trace(path) if name == "engine")
    assert sum(span["name"] == "forward" for span in engine) == 3  # of the second request alone
    written = path.stat().st_mtime_ns
    server.completion(prompt="Three", max_tokens=3)
    server.send_signal()
    assert server.wait_exit() == 0
    assert path.stat().st_mtime_ns == written


def test_no_routes_without_the_flag(server):
    assert server.http.post("/start_profile").status_code == 404
    assert server.http.post("/stop_profile").status_code == 404
