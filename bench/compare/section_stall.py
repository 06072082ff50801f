"""What running streams feel while a prompt of 4096 tokens enters: the 99th percentile of the time between their tokens,
against its median before."""
import asyncio
import statistics
import time

import client
import engines
import loads
import section_server
import servers
from machine import BenchError
from turns import Figure, in_turns, values_of

STREAMS, LONG_PROMPT = 8, 4096


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


async def one_round(port, pool, seed):
    prompts = loads.Prompts(pool, seed)
    answers = [client.Answer(0.0) for _ in range(STREAMS)]
    streams = [asyncio.create_task(client.complete(port, prompts.cut(64), 1800, answer)) for answer in answers]
    try:
        while min(len(a.times) for a in answers) < 16:
            await _running(streams)
        alone_begin = time.monotonic()
        while min(len(a.gaps(alone_begin)) for a in answers) < 64:
            await _running(streams)
        sent = time.monotonic()
        long = await client.complete(port, prompts.cut(LONG_PROMPT), 2)
        entered = long.times[0]
    finally:
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*streams, return_exceptions=True)
    alone = [gap for a in answers for gap in a.gaps(alone_begin, sent)]
    during = [gap for a in answers for gap in a.gaps(sent, entered)]
    # A stream that got nothing while the prompt entered waited at least so long.
    during += [entered - max(sent, a.times[-1]) for a in answers if not a.gaps(sent, entered)]
    return {"alone": statistics.median(alone) * 1e3, "p99": percentile(during, 0.99) * 1e3,
            "stall": percentile(during, 0.99) / statistics.median(alone), "longest": max(during) * 1e3, "entered": (entered - sent) * 1e3}


async def _running(streams):
    await asyncio.sleep(0.01)
    for stream in streams:
        if stream.done():
            stream.result()  # raises what it raised
            raise BenchError("a stream ended before the long prompt came")


def measure(run):
    pool = loads.token_pool(run.model)
    tokens = LONG_PROMPT + 64
    sides = section_server.open_servers(run, STREAMS + 1, tokens)
    if "llama.cpp" in sides:
        flags = engines.LlamaCpp(run.model, run.args.threads).server_flags()
        sides["llama.cpp -b 64"] = servers.llama_cpp(run.model.gguf, run.args.threads, STREAMS + 1, tokens, [*flags, "-b", 64, "-ub", 64])
    alone = asyncio.run(one_round(sides["Quire"].port, pool, 1))["alone"]  # also warms up
    step = f"{1.6 * alone:.0f}"
    limited = servers.quire(servers.quire_binary(), run.model.gguf, run.args.threads,
                            ["--max-model-len", tokens, "--max-step-ms", step, *run.args.quire_flags.split()])
    sides = {"Quire": limited, "Quire, no --max-step-ms": sides.pop("Quire"), **sides}
    settings = section_server.settings_of(sides)
    seeds = iter(range(10, 1000))
    try:
        found = in_turns(sides, lambda _, side: asyncio.run(one_round(side.port, pool, next(seeds))), run.args.rounds)
    finally:
        section_server.close(sides)
    for key, name, unit, more in (
            ("stall", f"p99 between tokens of {STREAMS} streams / median alone", "x", {"limit": 2.0}), ("alone", "median alone", "ms", {}),
            ("p99", "p99 while it enters", "ms", {}), ("longest", "longest while it enters", "ms", {}),
            ("entered", f"time to first token of the {LONG_PROMPT}", "ms", {})):
        run.add(Figure("server, a long prompt enters", run.model.name, name, unit, values_of(found, key), higher_is_better=False,
                       settings=settings, missing=dict(run.missing), **more))
