"""What running streams feel while a prompt of 4096 tokens enters: the 99th percentile of the time between their tokens,
against their median alone, which grows with them from what it is before to what it is after."""
import asyncio
import math
import statistics
import time

import client
import engines
import loads
import section_server
import servers
from machine import BenchError
from turns import Figure, in_turns, values_of

STREAMS, LONG_PROMPT, RATIO = 8, 4096, "1.6"


def percentile(values, share):
    """Nearest rank."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


async def one_round(port, pool, seed):
    prompts = loads.Prompts(pool, seed)
    answers = [client.Answer(0.0) for _ in range(STREAMS)]
    streams = [asyncio.create_task(client.complete(port, prompts.cut(64), 3000, answer)) for answer in answers]
    try:
        while min(len(a.times) for a in answers) < 16:
            await _running(streams)
        before = await _alone(streams, answers)
        sent = time.monotonic()
        long = await client.complete(port, prompts.cut(LONG_PROMPT), 1)
        entered = long.times[0]
        after = await _alone(streams, answers)  # the streams are longer now, and their steps too
    finally:
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*streams, return_exceptions=True)
    # A stream that got nothing while the prompt entered waited at least so long.
    during = [a.gaps(sent, entered) or [entered - max(sent, a.times[-1])] for a in answers]
    first, last = statistics.median(before), statistics.median(after)
    # Streams get longer and slower by themselves: each gap against what it would be alone at that length.
    stalls = [gap / (first + (last - first) * i / len(gaps)) for gaps in during for i, gap in enumerate(gaps)]
    gaps = sum(during, [])
    control = statistics.median([percentile(before, 0.99) / first, percentile(after, 0.99) / last])
    return {"control": control, "alone": first * 1e3, "alone_after": last * 1e3, "p50": statistics.median(gaps) * 1e3, "p99": percentile(gaps, 0.99) * 1e3,
            "stall": percentile(stalls, 0.99), "typical": statistics.median(stalls), "longest": max(gaps) * 1e3,
            "by_first": percentile(gaps, 0.99) / first, "entered": (entered - sent) * 1e3}


async def _alone(streams, answers):
    """Times between 64 tokens of each stream."""
    begin = time.monotonic()
    while min(len(a.gaps(begin)) for a in answers) < 64:
        await _running(streams)
    end = time.monotonic()
    return [gap for a in answers for gap in a.gaps(begin, end)]


async def _running(streams):
    await asyncio.sleep(0.01)
    for stream in streams:
        if stream.done():
            stream.result()  # raises what it raised
            raise BenchError("a stream ended before the long prompt was there")


def measure(run):
    pool = loads.token_pool(run.model)
    tokens = LONG_PROMPT + 64
    flags = ["--max-step-ratio", RATIO]
    sides = section_server.open_servers(run, STREAMS + 1, tokens, quire_flags=flags)
    if "llama.cpp" in sides:
        flags = engines.LlamaCpp(run.model, run.args.threads).server_flags()
        sides["llama.cpp -b 64"] = servers.llama_cpp(run.model.path, run.args.threads, STREAMS + 1, tokens, [*flags, "-b", 64, "-ub", 64])
    unlimited = servers.quire(servers.quire_binary(), run.model.path, run.args.threads,
                              ["--max-model-len", tokens, "--max-step-ratio", 0, *run.args.quire_flags.split()])
    sides = {"Quire": sides.pop("Quire"), "Quire, no limit": unlimited, **sides}
    settings = section_server.settings_of(sides)
    seeds = iter(range(10, 1000))
    try:
        for side in sides.values():  # warm up
            asyncio.run(client.complete(side.port, loads.Prompts(pool, 1).cut(64), 16))
        found = in_turns(sides, lambda _, side: asyncio.run(one_round(side.port, pool, next(seeds))), run.args.rounds)
    finally:
        section_server.close(sides)
    for key, name, unit, more in (
            ("stall", f"p99 between tokens of {STREAMS} streams / median alone", "x", {"limit": 2.0}),
            ("control", "p99 alone / median alone: the same without the long prompt", "x", {}),
            ("typical", "median between tokens / median alone", "x", {}), ("by_first", "p99 between tokens / median before", "x", {}),
            ("alone", "median alone, before", "ms", {}), ("alone_after", "median alone, after", "ms", {}),
            ("p50", "median while it enters", "ms", {}), ("p99", "p99 while it enters", "ms", {}),
            ("longest", "longest while it enters", "ms", {}), ("entered", f"time to first token of the {LONG_PROMPT}", "ms", {})):
        run.add(Figure("server, a long prompt enters", run.model.name, name, unit, values_of(found, key), higher_is_better=False,
                       settings=settings, missing=dict(run.missing), **more))
