"""From the start of a server to its first good /health, and the most memory it holds under 16 clients."""
import asyncio
import re

import client
import engines
import models
import servers
from machine import BenchError
from turns import Figure, in_turns, values_of

CLIENTS, PROMPT, ANSWER = 16, 512, 64


def makers(run):
    """{name: function that starts its server}."""
    model, args = run.model, run.args
    tokens = PROMPT + ANSWER + 8
    flags = ["--max-num-seqs", CLIENTS, "--max-model-len", tokens, *args.quire_flags.split()]
    found = {"Quire": lambda **more: servers.quire(servers.quire_binary(), model.path, args.threads, flags, **more)}
    if "llama.cpp" in args.peers:
        try:
            best = engines.LlamaCpp(model, args.threads).server_flags()
            found["llama.cpp"] = lambda **more: servers.llama_cpp(model.path, args.threads, CLIENTS, tokens, best, **more)
        except BenchError as e:
            run.missing["llama.cpp"] = str(e)
    if "vLLM" in args.peers:
        try:
            engines.find_vllm()
            folder = models.hf_folder(model)
            found["vLLM"] = lambda **more: servers.vllm(folder, args.threads, 1024, args.vllm_compiled, args.vllm_bind, **more)
        except BenchError as e:
            run.missing["vLLM"] = str(e)
    return found


def start_and_stop(_, make):
    server = make()
    server.stop()
    return {"ready": server.ready_s * 1e3}


def peak_memory(make):
    """MB of anonymous memory and of all that is resident, and the server's log."""
    server = make(watched=True)
    requests = [([5 + i] * PROMPT, ANSWER) for i in range(CLIENTS)]
    asyncio.run(client.run_clients(server.port, requests, CLIENTS))
    peak = server.watch.finish()
    return peak / 1e6, server.watch.peak_rss / 1e6, server.stop()


def measure(run):
    sides = makers(run)
    for name in list(sides):
        try:
            start_and_stop(name, sides[name])  # warms the file cache
        except BenchError as e:
            run.missing[name] = str(e)
            del sides[name]
    found = in_turns(sides, start_and_stop, run.args.rounds)
    shared = {"missing": dict(run.missing), "higher_is_better": False}
    run.add(Figure("start and memory", run.model.name, "start to ready", "ms", values_of(found, "ready"),
                   limit=1000.0 if run.model.facts["file_bytes"] < 0.4e9 else None, **shared))
    memory = {name: peak_memory(make) for name, make in sides.items()}
    log = memory["Quire"][2]
    kv = re.search(r"KV cache: ([\d.]+) MiB", log)
    kv_mb = float(kv.group(1)) * servers.MIB / 1e6 if kv else 0.0
    limit = 1.1 * run.model.facts["file_bytes"] / 1e6 + 200 + kv_mb
    kv_line = next((line for line in log.splitlines() if "KV" in line), "")
    run.add(Figure("start and memory", run.model.name, f"anonymous memory, {CLIENTS} clients", "MB", {n: [m[0]] for n, m in memory.items()}, limit=limit,
                   note=f"at most 1.1 x file + KV + 200 MB = {limit:.0f} MB; {kv_line.strip()}", **shared))
    run.add(Figure("start and memory", run.model.name, f"resident memory, {CLIENTS} clients", "MB", {n: [m[1]] for n, m in memory.items()}, **shared))
