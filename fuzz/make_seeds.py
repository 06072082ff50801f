#!/usr/bin/env python3
"""Writes the seed corpora of the fuzz targets to fuzz/seeds/{gguf,safetensors,config_json}."""
import json
import pathlib
import struct

SEEDS = pathlib.Path(__file__).parent / "seeds"
U32, F32, BOOL, STRING, ARRAY, U64 = 4, 6, 7, 8, 9, 10
ROW_BYTES = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34),
             10: (256, 84), 12: (256, 144), 13: (256, 176), 14: (256, 210), 28: (1, 8), 30: (1, 2)}


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def value(kind, v):
    if kind == STRING:
        return string(v)
    if kind == ARRAY:
        element, items = v
        return struct.pack("<IQ", element, len(items)) + b"".join(value(element, i) for i in items)
    return struct.pack("<" + {U32: "I", F32: "f", BOOL: "?", U64: "Q"}[kind], v)


def gguf(metadata, tensors, version=3, alignment=32):
    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    for key, kind, v in metadata:
        out += string(key) + struct.pack("<I", kind) + value(kind, v)
    offset, sizes = 0, []
    for name, dims, kind in tensors:
        block, block_bytes = ROW_BYTES[kind]
        elements = 1
        for dim in dims:
            elements *= dim
        out += string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)
        sizes.append(elements // block * block_bytes)
        offset += -(-sizes[-1] // alignment) * alignment
    out += b"\0" * (-len(out) % alignment)
    for size in sizes:
        out += bytes(range(256)) * (size // 256) + bytes(size % 256)
        out += b"\0" * (-size % alignment)
    return out


LLAMA = [("general.architecture", STRING, "llama"), ("llama.block_count", U32, 1),
         ("llama.embedding_length", U32, 32), ("llama.feed_forward_length", U32, 32),
         ("llama.attention.head_count", U32, 2),
         ("llama.attention.head_count_kv", ARRAY, (U32, [1])),
         ("llama.context_length", U32, 64), ("llama.attention.layer_norm_rms_epsilon", F32, 1e-5),
         ("llama.rope.scaling.type", STRING, "linear"), ("llama.rope.scaling.factor", F32, 2.0),
         ("tokenizer.ggml.tokens", ARRAY, (STRING, ["<s>", "</s>", "a"])),
         ("tokenizer.ggml.scores", ARRAY, (F32, [0.0, 1.0, 2.0])),
         ("tokenizer.ggml.eos_token_id", U32, 1), ("tokenizer.ggml.add_bos_token", BOOL, True)]


def write(folder, name, data):
    path = SEEDS / folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())


def safetensors(header, data):
    text = json.dumps(header)
    text += " " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text.encode() + data


write("gguf", "empty", gguf([], []))
write("gguf", "llama", gguf(LLAMA, [("token_embd.weight", [32, 3], 8), ("output_norm.weight", [32], 0),
                                    ("blk.0.attn_q.weight", [32, 32], 2),
                                    ("rope_freqs.weight", [8], 0)]))
write("gguf", "version2_aligned", gguf([("general.alignment", U32, 64), ("big", U64, 2**64 - 1)],
                                       [("a", [4, 2], 0), ("b", [3], 1)], version=2, alignment=64))
write("gguf", "every_type", gguf([], [(f"t{kind}", [256], kind) for kind in ROW_BYTES]))

TENSOR = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}
write("safetensors", "one", safetensors({"a": TENSOR}, bytes(16)))
write("safetensors", "two", safetensors({"__metadata__": {"format": "pt"}, "a": TENSOR,
                                         "b": {"dtype": "BF16", "shape": [], "data_offsets": [16, 18]}},
                                        bytes(18)))
write("safetensors", "types", safetensors(
    {kind: {"dtype": kind, "shape": [1], "data_offsets": [i, i + 1]}
     for i, kind in enumerate(["U8", "I8", "BOOL", "F8_E4M3", "F8_E5M2"])}, bytes(5)))

BASE = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 9, "hidden_size": 8,
        "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 1, "rms_norm_eps": 1e-5, "eos_token_id": [1, 2], "torch_dtype": "float16"}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32, "rope_theta": 5e5}
GENERATION = {"eos_token_id": 3, "temperature": 0.6, "top_k": 20, "top_p": 0.9, "do_sample": True}
write("config_json", "llama", json.dumps(BASE))
write("config_json", "llama3", json.dumps(BASE | {"rope_parameters": LLAMA3}) + "\0" +
      json.dumps(GENERATION))
write("config_json", "linear", json.dumps(BASE | {"rope_scaling": {"type": "linear", "factor": 2}}))
write("config_json", "mistral", json.dumps(BASE | {"architectures": ["MistralForCausalLM"],
                                                   "sliding_window": 8, "head_dim": 16}))
