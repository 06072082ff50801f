#!/usr/bin/env python3
"""Writes a GGUF file with the sizes of a known model and seeded random weights, for speeds where no real file can be had.

    .cache/peers/tools/bin/python bench/compare/random_model.py 135m|0.5b|1b bf16|q8_0|q4_0 LIKE.gguf OUT.gguf

LIKE.gguf gives the vocabulary, its tokenizer and the architecture's name (Llama for 135m and 1b, Qwen 2 for 0.5b).
Every matrix is normal with deviation 0.02, rounded to bfloat16 before it is quantized, so that all types come from
the same numbers. The same arguments give the same file.
"""
import sys
import zlib

import gguf
import numpy as np

# layers, hidden, wide (of the MLP), heads, KV heads: SmolLM2 135M, Qwen 2.5 0.5B, Llama 3.2 1B (with LIKE's vocabulary).
SIZES = {"135m": (30, 576, 1536, 9, 3), "0.5b": (24, 896, 4864, 14, 2), "1b": (16, 2048, 8192, 32, 8)}
TYPES = {"bf16": gguf.GGMLQuantizationType.BF16, "q8_0": gguf.GGMLQuantizationType.Q8_0, "q4_0": gguf.GGMLQuantizationType.Q4_0}
FILE_TYPES = {"bf16": gguf.LlamaFileType.MOSTLY_BF16, "q8_0": gguf.LlamaFileType.MOSTLY_Q8_0, "q4_0": gguf.LlamaFileType.MOSTLY_Q4_0}


def shapes(size, arch, vocab):
    """(name, shape) of all tensors; matrices are [outputs, inputs]."""
    layers, hidden, wide, heads, kv_heads = SIZES[size]
    kv = hidden // heads * kv_heads
    yield "token_embd.weight", (vocab, hidden)
    for i in range(layers):
        for name, rows, columns in (("attn_q", hidden, hidden), ("attn_k", kv, hidden), ("attn_v", kv, hidden), ("attn_output", hidden, hidden),
                                    ("ffn_gate", wide, hidden), ("ffn_up", wide, hidden), ("ffn_down", hidden, wide)):
            yield f"blk.{i}.{name}.weight", (rows, columns)
            if arch == "qwen2" and name in ("attn_q", "attn_k", "attn_v"):
                yield f"blk.{i}.{name}.bias", (rows,)
        yield f"blk.{i}.attn_norm.weight", (hidden,)
        yield f"blk.{i}.ffn_norm.weight", (hidden,)
    yield "output_norm.weight", (hidden,)


def numbers(name, shape):
    if "norm" in name:
        return np.ones(shape, np.float32)
    random = np.random.default_rng(zlib.crc32(name.encode()))
    values = random.standard_normal(shape, dtype=np.float32) * np.float32(0.02)
    return (values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def write_fields(writer, like, size, kind):
    arch = like.get_field("general.architecture").contents()
    layers, hidden, wide, heads, kv_heads = SIZES[size]
    writer.add_name(f"random {size} {kind}")
    writer.add_file_type(FILE_TYPES[kind])
    writer.add_block_count(layers)
    writer.add_context_length(8192)
    writer.add_embedding_length(hidden)
    writer.add_feed_forward_length(wide)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(100000.0)
    if arch == "llama":
        writer.add_rope_dimension_count(hidden // heads)
    for name, field in like.fields.items():
        if name.startswith("tokenizer."):
            is_array = field.types[0] == gguf.GGUFValueType.ARRAY
            writer.add_key_value(name, field.contents(), field.types[0], field.types[-1] if is_array else None)


def main():
    size, kind, like_path, out = sys.argv[1:]
    like = gguf.GGUFReader(like_path)
    arch = like.get_field("general.architecture").contents()
    vocab = len(like.get_field("tokenizer.ggml.tokens").data)
    writer = gguf.GGUFWriter(out, arch, use_temp_file=True)
    write_fields(writer, like, size, kind)
    for name, shape in shapes(size, arch, vocab):
        values = numbers(name, shape)
        if len(shape) == 1:
            writer.add_tensor(name, values)
        else:
            writer.add_tensor(name, gguf.quants.quantize(values, TYPES[kind]), raw_dtype=TYPES[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
