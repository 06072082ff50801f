#!/usr/bin/env python3
"""Quantizes a Hugging Face folder of bfloat16 weights to AWQ's format (4 bits, zero points, groups of 128 or 64), for speeds.

    .cache/peers/vllm/bin/python bench/compare/awq_folder.py FOLDER OUT

Round to nearest: the format is AWQ's, the search for scales by activations is left out, since it changes no speed. The
matrices of the layers are quantized, embedding and head stay bfloat16.
"""
import json
import pathlib
import shutil
import sys

import torch
from safetensors.torch import load_file, save_file

ORDER = [0, 2, 4, 6, 1, 3, 5, 7]  # field i of a word holds output ORDER[i] of its eight


def packed(values):
    """int32 [rows, outputs / 8] of values 0 to 15 [rows, outputs]."""
    fields = values.reshape(values.shape[0], -1, 8)[:, :, ORDER].to(torch.int64)
    words = sum(fields[:, :, i] << (4 * i) for i in range(8))
    return torch.where(words >= 1 << 31, words - (1 << 32), words).to(torch.int32).contiguous()


def quantized(weight, group):
    """qweight, qzeros, scales of a matrix [outputs, inputs]."""
    outputs, inputs = weight.shape
    groups = weight.float().T.reshape(inputs // group, group, outputs)
    low, high = groups.amin(1).clamp(max=0), groups.amax(1).clamp(min=0)
    scales = ((high - low) / 15).clamp(min=1e-6).to(torch.bfloat16).float()
    zeros = (-low / scales).round().clamp(0, 15)
    values = ((groups / scales[:, None]).round() + zeros[:, None]).clamp(0, 15).reshape(inputs, outputs)
    return packed(values), packed(zeros), scales.to(torch.bfloat16).contiguous()


def main():
    source, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    weights = {}
    for path in sorted(source.glob("*.safetensors")):
        weights |= load_file(path)
    matrices = [name for name, value in weights.items() if ".layers." in name and name.endswith("proj.weight")]
    group = 128 if all(weights[name].shape[1] % 128 == 0 for name in matrices) else 64
    for name in matrices:
        stem = name.removesuffix("weight")
        weights[f"{stem}qweight"], weights[f"{stem}qzeros"], weights[f"{stem}scales"] = quantized(weights.pop(name), group)
    out.mkdir(parents=True, exist_ok=True)
    for path in source.iterdir():
        if path.suffix in (".json", ".jinja", ".txt") and not path.name.endswith(".index.json"):
            shutil.copy(path, out)
    save_file(weights, out / "model.safetensors", {"format": "pt"})
    config = json.loads((source / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True, "version": "gemm",
                                     "modules_to_not_convert": None}
    (out / "config.json").write_text(json.dumps(config, indent=1))


if __name__ == "__main__":
    main()
