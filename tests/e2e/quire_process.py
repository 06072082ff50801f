"""Runs the quire binary: a server on a free port, or one command to its end."""
import os
import pathlib
import re
import signal
import socket
import subprocess
import time

import httpx

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MODEL = pathlib.Path(os.environ.get("QUIRE_MODEL", ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf")).absolute()
PATIENCE_S = 120.0  # after this long something hangs; never a statement about speed


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(condition, what, patience_s=PATIENCE_S):
    """Polls until condition() is true; returns what it gave."""
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.05)
    raise AssertionError(f"waited {patience_s:.0f} s for {what}")


def run_quire(binary, *args, stdin="", env=None, timeout_s=PATIENCE_S, stdout=subprocess.PIPE):
    """One command to its end: exit code, stdout, stderr."""
    done = subprocess.run([str(binary), *map(str, args)], input=stdin, stdout=stdout, stderr=subprocess.PIPE, text=True,
                          timeout=timeout_s, env={**os.environ, **(env or {})}, cwd=ROOT)
    return done


class Quire:
    """One `quire serve` process."""

    def __init__(self, binary, model, flags=(), log=None, env=None, port=None):
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log_path = pathlib.Path(log)
        command = [str(binary), "serve", str(model), "--host", "127.0.0.1", "--port", str(self.port), *map(str, flags)]
        with open(self.log_path, "wb") as log_file:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log_file, stderr=log_file,
                                            env={**os.environ, **(env or {})}, cwd=ROOT)
        self.http = httpx.Client(base_url=self.url, timeout=PATIENCE_S)
        self._model = None

    @property
    def log(self):
        return self.log_path.read_text(errors="replace")

    def wait_until_ready(self):
        def ready():
            if self.process.poll() is not None:
                raise AssertionError(f"quire ended with {self.process.returncode} while starting:\n{self.log[-3000:]}")
            try:
                return self.http.get("/health").status_code == 200
            except httpx.TransportError:
                return False
        try:
            wait_for(ready, "the server to be ready")
        except AssertionError as e:
            raise AssertionError(f"{e}\n{self.log[-3000:]}") from None

    @property
    def model(self):
        if self._model is None:
            self._model = self.http.get("/v1/models").json()["data"][0]["id"]
        return self._model

    def completion(self, **fields):
        body = {"model": self.model, "temperature": 0, **fields}
        reply = self.http.post("/v1/completions", json=body)
        assert reply.status_code == 200, f"{reply.status_code}: {reply.text[:1000]}"
        return reply.json()

    def chat(self, content="Say hello.", **fields):
        body = {"model": self.model, "temperature": 0, "messages": [{"role": "user", "content": content}], **fields}
        reply = self.http.post("/v1/chat/completions", json=body)
        assert reply.status_code == 200, f"{reply.status_code}: {reply.text[:1000]}"
        return reply.json()

    def metric(self, name):
        """Sum of a metric's samples, e.g. vllm:num_requests_running."""
        values = re.findall(rf"^{re.escape(name)}(?:\{{[^}}]*\}})? (\S+)$", self.http.get("/metrics").text, re.M)
        assert values, f"/metrics has no {name}"
        return sum(map(float, values))

    def is_idle(self):
        return (self.metric("vllm:num_requests_running") == 0 and self.metric("vllm:num_requests_waiting") == 0)

    def wait_until_idle(self):
        wait_for(self.is_idle, "all requests to end")

    def send_signal(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def wait_exit(self):
        return self.process.wait(PATIENCE_S)

    def kill(self):
        self.http.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
