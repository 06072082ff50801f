#!/usr/bin/env python3
"""How fast a model of 1 GB in bfloat16 loads, and how much memory that takes.

    .venv/bin/python bench/compare/loading.py [--rounds N] [--model FILE.gguf ...] [--max-ready SECONDS]

Writes a folder with the sizes of Qwen2.5-0.5B and random weights (once as one file, once as four) under
build/bench-models, starts `quire serve` on each, and prints the stages of the log, GB/s from the files' bytes,
the time to the first good /health, and the most anonymous memory against packed weights + 2 layers.
The file cache is warm: the first start of each model is not counted. Targets: 1 GB/s of weights, and less memory
than packed weights + 2 layers. --model: the same for files at hand; with --max-ready a slower start is an error.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent))
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


def weight_bytes(model):
    return model.stat().st_size if model.is_file() else sum(f.stat().st_size for f in model.glob("*.safetensors"))


def start_once(binary, model, threads, watched=False):
    """(seconds to ready, seconds of the weights' stage, packed bytes, peak of RssAnon while loading, the log). Watching
    takes time of its own: runs that are watched are not timed."""
    server = servers.quire(binary, model, threads, watched=watched)
    ready, peak = server.ready_s, server.watch.finish() if watched else 0
    log = server.stop()
    packed, seconds = re.search(r"weights: ([\d.]+) MiB packed .*\(([\d.]+) s\)", log).groups()
    return ready, float(seconds), float(packed) * MIB, peak, log


def report(binary, model, threads, rounds):
    runs = [start_once(binary, model, threads) for _ in range(rounds + 1)][1:]
    watched = start_once(binary, model, threads, watched=True)
    size, log = weight_bytes(model), runs[-1][4]
    ready, seconds = (statistics.median(run[i] for run in runs) for i in (0, 1))
    packed, peak = runs[0][2], watched[3]
    print(f"{model.name}: {size / 1e9:.2f} GB")
    for line in log.splitlines():
        if re.search(r"\(\d+\.\d+ s\)$", line):
            print(f"  {line}")
    print(f"  weights: {size / seconds / 1e9:.2f} GB/s ({', '.join(f'{size / run[1] / 1e9:.2f}' for run in runs)})")
    print(f"  start to ready: {ready:.3f} s ({', '.join(f'{run[0]:.3f}' for run in runs)}), {size / ready / 1e9:.2f} GB/s in all")
    print(f"  RssAnon: at most {peak / MIB:.0f} MiB; packed weights are {packed / MIB:.0f} MiB", end="")
    if model.is_dir():
        layer = 2 * sum(int(np.prod(shape)) for name, shape in shapes() if ".layers.0." in name)
        print(f", with 2 layers {(packed + 2 * layer) / MIB:.0f} MiB", end="")
    print("\n", flush=True)
    return {"bytes": size, "ready_s": [run[0] for run in runs], "weights_s": [run[1] for run in runs], "peak_anon": peak,
            "packed": packed}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quire", type=pathlib.Path, default=ROOT / "build" / "quire")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--max-ready", type=float, help="seconds; an error when the median start takes longer")
    parser.add_argument("--model", type=pathlib.Path, nargs="*", default=[])
    args = parser.parse_args()
    models = args.model or [make_model(ROOT / "build" / "bench-models" / f"random-0.5b-{files}", files) for files in (1, 4)]
    found = {str(model): report(args.quire, model, args.threads, args.rounds) for model in models}
    (ROOT / "build" / "bench-loading.json").write_text(json.dumps(found, indent=1))
    for name, values in found.items():
        ready = statistics.median(values["ready_s"])
        if args.max_ready and ready > args.max_ready:
            sys.exit(f"{name}: ready after {ready:.3f} s, more than {args.max_ready}")


if __name__ == "__main__":
    main()
