"""How long `quire serve` takes until it answers, and the most anonymous memory it holds under load."""
import concurrent.futures
import pathlib
import re
import signal
import socket
import statistics
import subprocess
import threading
import time

import httpx

MIB = 1 << 20


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def rss_anon_bytes(pid):
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    match = re.search(r"RssAnon:\s+(\d+) kB", status)
    return int(match.group(1)) * 1024 if match else 0


class PeakWatch(threading.Thread):
    """Samples RssAnon of a process until stopped."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.peak, self.stopped = pid, 0, threading.Event()

    def run(self):
        while not self.stopped.wait(0.005):
            self.peak = max(self.peak, rss_anon_bytes(self.pid))


def start_server(binary, model, threads, watched=False):
    """The process, its address, and the seconds from its start to the first good /health. watched: its memory, too,
    in process.watch."""
    port = free_port()
    begin = time.monotonic()
    process = subprocess.Popen([str(binary), "serve", str(model), "--host", "127.0.0.1", "--port", str(port), "--threads", str(threads)],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if watched:
        process.watch = PeakWatch(process.pid)
        process.watch.start()
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port)) as s:
                s.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                if s.recv(64).startswith(b"HTTP/1.1 200"):
                    return process, f"http://127.0.0.1:{port}", time.monotonic() - begin
        except OSError:
            pass
        if process.poll() is not None:
            raise SystemExit(f"quire serve ended while starting:\n{process.stderr.read()}")
        time.sleep(0.002)


def stop(process):
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate()
    return log


def load(url):
    """Sixteen clients at once, 512 tokens in and 64 out each."""
    with httpx.Client(base_url=url, timeout=600) as client:
        name = client.get("/v1/models").json()["data"][0]["id"]

        def ask(number):
            body = {"model": name, "prompt": [5 + number] * 512, "max_tokens": 64, "ignore_eos": True, "temperature": 0}
            client.post("/v1/completions", json=body).raise_for_status()

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            list(pool.map(ask, range(16)))
        return client.get("/metrics").text


def report(binary, model, threads, rounds):
    times = []
    for _ in range(rounds + 1):
        process, url, seconds = start_server(binary, model, threads)
        times.append(seconds)
        stop(process)
    ready = statistics.median(times[1:])  # the first one warms the file cache
    process, url, _ = start_server(binary, model, threads)
    watch = PeakWatch(process.pid)
    watch.start()
    idle = rss_anon_bytes(process.pid)
    load(url)
    watch.stopped.set()
    watch.join()
    log = stop(process)
    size = model.stat().st_size
    print(f"start to ready: {ready * 1000:.0f} ms (target < 1000), of {', '.join(f'{t * 1000:.0f}' for t in times[1:])}")
    print(f"RssAnon: {idle / MIB:.0f} MiB when ready, at most {watch.peak / MIB:.0f} MiB under 16 clients "
          f"(target: 1.1 x file + 200 MB + KV = {(1.1 * size + 200e6) / MIB:.0f} MiB + KV)")
    for line in log.splitlines():
        if "KV" in line:
            print(f"  {line}")
            break
    print()
    return {"ready_s": times[1:], "rss_anon_ready": idle, "rss_anon_peak": watch.peak, "model_bytes": size}
