"""Server against server: the same clients and prompts for all; every server is up for the whole section, one of them busy
at a time."""
import asyncio
import statistics

import client
import engines
import loads
import models
import servers
from machine import BenchError
from turns import Figure, in_turns, values_of


def open_servers(run, slots, tokens, quire_flags=(), llama_flags=(), vllm_flags=(), llama_slots=None):
    """{name: server} of the wanted ones, each with room for `slots` sequences of `tokens` tokens (llama.cpp: llama_slots)."""
    model, args = run.model, run.args

    def llama():
        flags = engines.LlamaCpp(model, args.threads).server_flags()
        return servers.llama_cpp(model.path, args.threads, llama_slots or slots, tokens, [*flags, *llama_flags])

    def vllm():
        engines.find_vllm()
        return servers.vllm(models.hf_folder(model), args.threads, tokens, args.vllm_compiled, args.vllm_bind, vllm_flags)

    makers = {"Quire": lambda: servers.quire(servers.quire_binary(), model.path, args.threads,
                                             ["--max-model-len", tokens, *args.quire_flags.split(), *quire_flags]),
              "llama.cpp": llama, "vLLM": vllm}
    found = {}
    for name, make in makers.items():
        if name == "Quire" or name in args.peers:
            try:
                found[name] = make()
            except BenchError as e:
                if name == "Quire":
                    raise
                run.missing[name] = str(e)
    if "vLLM" in found:
        run.versions["vLLM"] = engines.vllm_version()
    return found


def settings_of(sides):
    return {name: " ".join(word for word in side.command[1:] if not word.startswith("/")) for name, side in sides.items()}


def close(sides):
    for side in sides.values():
        side.stop()


def summary(answers, seconds):
    tokens = sum(a.tokens for a in answers)
    return {"output": tokens / seconds, "all": (tokens + sum(a.prompt_tokens for a in answers)) / seconds,
            "first": statistics.median(a.first_s for a in answers) * 1e3,
            "per_token": statistics.median(a.per_token_s for a in answers) * 1e3}


def mixed_lengths(run):
    """1 to 64 clients, prompts and answers of mixed lengths, nothing shared."""
    pool = loads.token_pool(run.model)
    sides = open_servers(run, max(run.args.clients), loads.LONGEST_PROMPT + loads.LONGEST_ANSWER + 8)
    settings = settings_of(sides)
    try:
        for clients in run.args.clients:
            count = max(clients, 4)
            seeds = iter(range(1000))

            def measure(_, side, count=count, clients=clients, seeds=seeds):
                requests = loads.mixed(pool, count, 100 * clients + next(seeds) // len(sides))
                return summary(*asyncio.run(client.run_clients(side.port, requests, clients)))

            found = in_turns(sides, measure, run.args.rounds)
            vllm = 3.0 if clients == 1 else 2.0 if clients in (16, 64) else None
            goal = {"targets": {"vLLM": vllm}} if vllm else {}
            for key, name, unit, more in (("output", "output", "tok/s", goal), ("all", "prompt and output", "tok/s", {}),
                                          ("first", "time to first token", "ms", {"higher_is_better": False}),
                                          ("per_token", "time per token", "ms", {"higher_is_better": False})):
                run.add(Figure("server, mixed lengths", run.model.name, f"{clients} clients: {name}", unit, values_of(found, key),
                               settings=settings, missing=dict(run.missing), **more))
    finally:
        close(sides)


def shared_prefix(run):
    """32 clients, 1024 tokens that all share and 64 of their own: with prefix caching, then Quire without."""
    pool, clients, count, answer = loads.token_pool(run.model), 32, 32, 16
    tokens = 1024 + 64 + answer + 8
    # Each slot of llama.cpp computes the prefix for itself: four were faster than eight (fewer were not tried).
    sides = open_servers(run, clients, tokens, llama_flags=["-kvu"], llama_slots=4)
    plain = servers.quire(servers.quire_binary(), run.model.path, run.args.threads,
                          ["--max-model-len", tokens, "--no-enable-prefix-caching", *run.args.quire_flags.split()])
    sides["Quire, no caching"] = plain
    settings = settings_of(sides)
    seeds = iter(range(1000))

    def measure(_, side):
        requests = loads.shared_prefix(pool, count, 7000 + next(seeds) // len(sides), answer=answer)  # a new prefix each round
        return summary(*asyncio.run(client.run_clients(side.port, requests, clients)))

    try:
        found = in_turns(sides, measure, run.args.rounds)
    finally:
        close(sides)
    for key, name, unit, more in (("all", "prompt and output", "tok/s", {"targets": {"Quire, no caching": 5.0, "llama.cpp": 1.5, "vLLM": 1.5}}),
                                  ("first", "time to first token", "ms", {"higher_is_better": False})):
        run.add(Figure("server, shared prefix", run.model.name, f"{clients} clients, 1024 shared + 64 own: {name}", unit, values_of(found, key),
                       settings=settings, missing=dict(run.missing), **more))
