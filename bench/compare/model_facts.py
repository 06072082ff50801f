#!/usr/bin/env python3
"""Prints what a GGUF file's arithmetic costs, as JSON: multiply-adds and bytes per token.

    .cache/peers/tools/bin/python bench/compare/model_facts.py MODEL.gguf

layers_macs: matrices of all layers, per token; head_macs: the output matrix; attention_macs_per_key: scores and
sums of all layers, per token and key; weight_bytes: what a decode step reads (the embedding only as output matrix);
begin_token: its id, where the vocabulary has one.
"""
import json
import pathlib
import sys

import gguf


def facts(path):
    reader = gguf.GGUFReader(path)

    def field(name, default=None):
        found = reader.get_field(name)
        return default if found is None else found.contents()

    arch = field("general.architecture")
    layers, heads = field(f"{arch}.block_count"), field(f"{arch}.attention.head_count")
    head_dim = field(f"{arch}.attention.key_length") or field(f"{arch}.embedding_length") // heads
    kinds, layer_macs, layer_bytes, head = {}, 0, 0, None
    for tensor in reader.tensors:
        macs, size = int(tensor.n_elements), int(tensor.n_bytes)
        if len(tensor.shape) == 2 and tensor.name.startswith("blk."):
            layer_macs += macs
            kinds[tensor.tensor_type.name] = kinds.get(tensor.tensor_type.name, 0) + macs
        if tensor.name in ("token_embd.weight", "output.weight") and (head is None or tensor.name == "output.weight"):
            head = (macs, size)
        if tensor.name.startswith("blk."):
            layer_bytes += size
    return {"architecture": arch, "layers": layers, "context": field(f"{arch}.context_length"), "main_type": max(kinds, key=kinds.get),
            "layers_macs": layer_macs, "head_macs": head[0], "attention_macs_per_key": 2 * layers * heads * head_dim,
            "weight_bytes": layer_bytes + head[1], "file_bytes": pathlib.Path(path).stat().st_size,
            "begin_token": field("tokenizer.ggml.bos_token_id")}


if __name__ == "__main__":
    print(json.dumps(facts(sys.argv[1])))
