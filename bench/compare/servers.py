"""Servers under test: started on a free port, waited for, watched, ended."""
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time

import engines
from machine import ROOT, BenchError

MIB = 1 << 20


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def process_tree(pid):
    """pid and all its descendants."""
    found = [pid]
    for parent in found:
        for task in pathlib.Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                found += [int(child) for child in task.read_text().split()]
            except OSError:
                pass
    return found


def rss_bytes(pid, kind="RssAnon"):
    """Resident memory of a process and what it started; RssAnon: without pages of files."""
    total = 0
    for each in process_tree(pid):
        try:
            match = re.search(rf"{kind}:\s+(\d+) kB", pathlib.Path(f"/proc/{each}/status").read_text())
        except OSError:
            continue
        total += int(match.group(1)) * 1024 if match else 0
    return total


class PeakWatch(threading.Thread):
    """Samples memory of a process (and its children) until stopped."""

    def __init__(self, pid, every_s=0.01):
        super().__init__(daemon=True)
        self.pid, self.every_s, self.peak, self.peak_rss, self.stopped = pid, every_s, 0, 0, threading.Event()

    def run(self):
        while not self.stopped.wait(self.every_s):
            self.peak = max(self.peak, rss_bytes(self.pid))
            self.peak_rss = max(self.peak_rss, rss_bytes(self.pid, "VmRSS"))

    def finish(self):
        self.stopped.set()
        self.join()
        return self.peak


class Server:
    """A running server. ready_s: seconds from its start to the first good /health."""

    def __init__(self, name, command, port, env=None, timeout_s=600, watched=False):
        self.name, self.port, self.command = name, port, [str(c) for c in command]
        self.log_file = tempfile.TemporaryFile("w+")
        if not os.path.exists(self.command[0]):
            raise BenchError(f"{self.command[0]} is missing")
        begin = time.monotonic()
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=self.log_file, stderr=subprocess.STDOUT,
                                        env={**os.environ, **(env or {})})
        self.watch = PeakWatch(self.process.pid) if watched else None
        if self.watch:
            self.watch.start()
        try:
            self._wait_until_ready(begin + timeout_s)
        except BaseException:
            self.process.kill()
            raise
        self.ready_s = time.monotonic() - begin

    @property
    def pid(self):
        return self.process.pid

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def _wait_until_ready(self, deadline):
        while time.monotonic() < deadline:
            try:
                with socket.create_connection(("127.0.0.1", self.port)) as s:
                    s.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                    if s.recv(64).startswith(b"HTTP/1.1 200"):
                        return
            except OSError:
                pass
            if self.process.poll() is not None:
                raise BenchError(f"{self.name} ended while starting:\n{self.log()[-2000:]}")
            time.sleep(0.002)
        raise BenchError(f"{self.name} is not ready in time:\n{self.log()[-2000:]}")

    def log(self):
        self.log_file.seek(0)
        return self.log_file.read()

    def stop(self):
        """Ends it; its log."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(40)
        except subprocess.TimeoutExpired:
            for pid in reversed(process_tree(self.pid)):
                os.kill(pid, signal.SIGKILL)
            self.process.wait()
        return self.log()


def quire(binary, model, threads, flags=(), watched=False):
    port = free_port()
    return Server("Quire", [binary, "serve", model, "--host", "127.0.0.1", "--port", port, "--threads", threads, "--served-model-name", "m",
                            *flags], port, watched=watched)


def llama_cpp(model, threads, slots, tokens_per_slot, flags=(), watched=False):
    """Each slot with room for so many tokens."""
    folder, port = engines.find_llama_cpp(), free_port()
    return Server("llama.cpp", [folder / "llama-server", "-m", model, "--host", "127.0.0.1", "--port", port, "-t", threads, "-np", slots,
                                "-c", slots * (-(-tokens_per_slot // 256) * 256), "--no-webui", "--alias", "m", *flags], port,
                  {"LD_LIBRARY_PATH": str(folder)}, watched=watched)


def vllm(folder, threads, max_model_len, compiled=False, bind="nobind", flags=(), watched=False):
    port = free_port()
    command = [engines.find_vllm() / "vllm", "serve", folder, "--served-model-name", "m", "--host", "127.0.0.1", "--port", port,
               "--dtype", "bfloat16", "--max-model-len", max_model_len, "--max-num-seqs", "64", *flags]
    return Server("vLLM", command + ([] if compiled else ["--enforce-eager"]), port, engines.vllm_env(threads, bind), watched=watched)


def quire_binary():
    return pathlib.Path(os.environ.get("QUIRE_BINARY", ROOT / "build" / "quire"))
