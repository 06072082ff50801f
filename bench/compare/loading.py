#!/usr/bin/env python3
"""How fast a model of 1 GB in bfloat16 loads, and how much memory that takes.

    .venv/bin/python bench/compare/loading.py [--rounds N] [--pause SECONDS] [--model FILE.gguf ...] [--max-ready SECONDS]

Writes a folder with the sizes of Qwen2.5-0.5B and random weights (once as one file, once as four) under
build/bench-models, starts `quire serve` on each, and prints the stages of the log, GB/s from the files' bytes,
the time to the first good /health, and the most anonymous memory against packed weights + 2 layers.
Both kinds of memory that a load needs are made warm before each start, and said: the model's files are read through,
and as much new memory as they are large is filled and given back (a virtual machine's host may have taken free memory and
evicted files: then the first touch runs at a fraction of the speed, whoever touches). --pause SECONDS adds starts that follow
such a pause without any warming, each with what the machine then gives: what of a slow load is the machine's.
Targets: 1 GB/s of weights, and less memory than packed weights + 2 layers. --model: the same for files at hand; with
--max-ready a slower start is an error.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import sys
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import memory  # noqa: E402
import servers  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
MIB = 1 << 20
CONFIG = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "torch_dtype": "bfloat16", "hidden_size": 896,
    "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2,
    "vocab_size": 151936, "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
    "hidden_act": "silu", "tie_word_embeddings": True, "bos_token_id": 0, "eos_token_id": 1,
}


def shapes():
    """{name: shape} of all tensors, in the order of the layers."""
    hidden, wide, kv = CONFIG["hidden_size"], CONFIG["intermediate_size"], 128
    yield "model.embed_tokens.weight", (CONFIG["vocab_size"], hidden)
    for i in range(CONFIG["num_hidden_layers"]):
        prefix = f"model.layers.{i}."
        for name, rows in (("q_proj", hidden), ("k_proj", kv), ("v_proj", kv)):
            yield f"{prefix}self_attn.{name}.weight", (rows, hidden)
            yield f"{prefix}self_attn.{name}.bias", (rows,)
        yield prefix + "self_attn.o_proj.weight", (hidden, hidden)
        for name in ("gate_proj", "up_proj"):
            yield f"{prefix}mlp.{name}.weight", (wide, hidden)
        yield prefix + "mlp.down_proj.weight", (hidden, wide)
        for name in ("input_layernorm", "post_attention_layernorm"):
            yield f"{prefix}{name}.weight", (hidden,)
    yield "model.norm.weight", (hidden,)


def write_file(path, tensors, seed):
    """A safetensors file of random bfloat16 numbers of a sane size."""
    header, at = {}, 0
    for name, shape in tensors:
        size = 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    random = np.random.default_rng(seed)
    with open(path, "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for name, shape in tensors:
            count = int(np.prod(shape))
            numbers = random.standard_normal(count, dtype=np.float32) * 0.02 + (1.0 if "norm" in name else 0.0)
            out.write((numbers.view(np.uint32) >> 16).astype(np.uint16).tobytes())
    return at


def make_model(folder, files):
    """The folder, written where it isn't there yet."""
    if (folder / "config.json").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    tensors = list(shapes())
    if files == 1:
        write_file(folder / "model.safetensors", tensors, 1)
    else:
        weight_map, total = {}, 0
        for i in range(files):
            part = tensors[i * len(tensors) // files:(i + 1) * len(tensors) // files]
            name = f"model-{i + 1:05d}-of-{files:05d}.safetensors"
            total += write_file(folder / name, part, i + 1)
            weight_map |= {tensor: name for tensor, _ in part}
        (folder / "model.safetensors.index.json").write_text(
            json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map}))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(ROOT / "tests" / "golden" / "qwen2" / name, folder / name)
    (folder / "config.json").write_text(json.dumps(CONFIG, indent=1))
    return folder


def files_of(model):
    return [model] if model.is_file() else list(model.glob("*.safetensors"))


def start_once(binary, model, threads, watched=False):
    """One start as a dict: seconds to ready, seconds of the weights' stage, packed bytes, peak of RssAnon while loading, the
    log, what /proc/vmstat counted. Watching takes time of its own: runs that are watched are not timed."""
    cached = statistics.mean(memory.resident_share(file) for file in files_of(model))
    before = memory.counters()
    server = servers.quire(binary, model, threads, watched=watched)
    ready, peak = server.ready_s, server.watch.finish() if watched else 0
    counted = {name: value - before[name] for name, value in memory.counters().items()}
    log = server.stop()
    packed, seconds = re.search(r"weights: ([\d.]+) MiB packed .*\(([\d.]+) s\)", log).groups()
    return {"ready_s": ready, "weights_s": float(seconds), "packed": float(packed) * MIB, "peak_anon": peak, "cached": cached,
            "vmstat": counted, "log": log}


def warm_start(binary, model, threads, watched=False):
    for file in files_of(model):
        memory.read_through(file)
    new_memory = memory.first_touch(sum(file.stat().st_size for file in files_of(model)), threads)
    return {"new_memory_gb_s": new_memory, **start_once(binary, model, threads, watched)}


def paused_start(binary, model, threads, pause_s):
    """A start after a pause, behind what new memory costs after such a pause."""
    time.sleep(pause_s)
    new_memory = memory.first_touch(sum(file.stat().st_size for file in files_of(model)), threads)
    time.sleep(pause_s)
    return {"new_memory_gb_s": new_memory, **start_once(binary, model, threads)}


def listed(runs, value):
    return ", ".join(f"{value(run):.2f}" for run in runs)


def print_paused(run, size):
    counted = ", ".join(f"{name} {value}" for name, value in run["vmstat"].items() if value)
    print(f"  after a pause: weights {size / run['weights_s'] / 1e9:.2f} GB/s, ready {run['ready_s']:.3f} s; new memory after such a "
          f"pause {run['new_memory_gb_s']:.2f} GB/s, {run['cached']:.0%} of the file cached; {counted}")


def report(binary, model, threads, rounds, pause_s):
    runs = [warm_start(binary, model, threads) for _ in range(rounds + 1)][1:]
    watched = warm_start(binary, model, threads, watched=True)
    paused = [paused_start(binary, model, threads, pause_s) for _ in range(min(rounds, 3) if pause_s else 0)]
    size = sum(file.stat().st_size for file in files_of(model))
    ready, seconds = (statistics.median(run[key] for run in runs) for key in ("ready_s", "weights_s"))
    packed, peak = runs[0]["packed"], watched["peak_anon"]
    print(f"{model.name}: {size / 1e9:.2f} GB")
    for line in runs[-1]["log"].splitlines():
        if re.search(r"\(\d+\.\d+ s\)$", line):
            print(f"  {line}")
    print(f"  weights: {size / seconds / 1e9:.2f} GB/s ({listed(runs, lambda run: size / run['weights_s'] / 1e9)})")
    print(f"  start to ready: {ready:.3f} s ({listed(runs, lambda run: run['ready_s'])}), {size / ready / 1e9:.2f} GB/s in all")
    print(f"  warmed just before: new memory at {listed(runs, lambda run: run['new_memory_gb_s'])} GB/s, "
          f"share of the files that was cached then {listed(runs, lambda run: run['cached'])}")
    print(f"  RssAnon: at most {peak / MIB:.0f} MiB; packed weights are {packed / MIB:.0f} MiB", end="")
    if model.is_dir():
        layer = 2 * sum(int(np.prod(shape)) for name, shape in shapes() if ".layers.0." in name)
        print(f", with 2 layers {(packed + 2 * layer) / MIB:.0f} MiB", end="")
    print()
    for run in paused:
        print_paused(run, size)
    print(flush=True)
    kept = [{key: value for key, value in run.items() if key != "log"} for run in runs + paused]
    return {"bytes": size, "ready_s": [run["ready_s"] for run in runs], "weights_s": [run["weights_s"] for run in runs],
            "peak_anon": peak, "packed": packed, "runs": kept}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quire", type=pathlib.Path, default=ROOT / "build" / "quire")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pause", type=float, default=0, help="seconds; adds three starts that follow such a pause each")
    parser.add_argument("--max-ready", type=float, help="seconds; an error when the median start takes longer")
    parser.add_argument("--model", type=pathlib.Path, nargs="*", default=[])
    args = parser.parse_args()
    models = args.model or [make_model(ROOT / "build" / "bench-models" / f"random-0.5b-{files}", files) for files in (1, 4)]
    found = {str(model): report(args.quire, model, args.threads, args.rounds, args.pause) for model in models}
    (ROOT / "build" / "bench-loading.json").write_text(json.dumps(found, indent=1))
    for name, values in found.items():
        ready = statistics.median(values["ready_s"])
        if args.max_ready and ready > args.max_ready:
            sys.exit(f"{name}: ready after {ready:.3f} s, more than {args.max_ready}")


if __name__ == "__main__":
    main()
