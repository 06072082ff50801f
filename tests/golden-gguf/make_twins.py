#!/usr/bin/env python3
"""GGUF twins of golden models that the shared set has none for, written by llama.cpp's rules for each architecture.

    python tests/golden-gguf/make_twins.py          (needs gguf, numpy, safetensors)

What convert_hf_to_gguf does to each is spelled out below: names, rows of Q and K permuted, experts stacked, gate and up
apart, A = -exp(A_log). Not checked with llama.cpp itself; status.json says so of each.
"""
import json
import pathlib

import gguf
import numpy as np
from safetensors.numpy import load_file

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE.parent / "golden"
COMMON = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
          "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
          "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
          "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
LFM2 = {"operator_norm": "attn_norm", "ffn_norm": "ffn_norm", "self_attn.out_proj": "attn_output",
        "self_attn.q_layernorm": "attn_q_norm", "self_attn.k_layernorm": "attn_k_norm", "conv.conv": "shortconv.conv",
        "conv.in_proj": "shortconv.in_proj", "conv.out_proj": "shortconv.out_proj", "feed_forward.w1": "ffn_gate",
        "feed_forward.w2": "ffn_down", "feed_forward.w3": "ffn_up"}
GRANITE = {"block_sparse_moe.router.layer": "ffn_gate_inp", "block_sparse_moe.output_linear": "ffn_down_exps",
           "shared_mlp.output_linear": "ffn_down_shexp", "mamba.in_proj": "ssm_in", "mamba.out_proj": "ssm_out",
           "mamba.conv1d": "ssm_conv1d", "mamba.norm": "ssm_norm"}
MINIMAX = {"block_sparse_moe.gate": "ffn_gate_inp"}


def permuted(rows, heads):
    """Rows of Q or K for pairs (2i, 2i + 1) in place of halves."""
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def twin_tensors(tensors, config, names, permute):
    """(GGUF name, array) of every tensor."""
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    experts = {}
    for name, value in tensors.items():
        if not name.startswith("model.layers."):
            yield {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
                   "model.embedding_norm.weight": "token_embd_norm.weight", "lm_head.weight": "output.weight"}[name], value
            continue
        _, _, number, rest = name.split(".", 3)
        block, (stem, _, suffix) = f"blk.{number}.", rest.rpartition(".")
        if permute and stem in ("self_attn.q_proj", "self_attn.k_proj"):
            value = permuted(value, heads if "q_proj" in stem else kv_heads)
        if stem.startswith("block_sparse_moe.experts."):  # MiniMax: one by one
            _, _, expert, matrix = stem.split(".")
            experts.setdefault((block, {"w1": "gate", "w2": "down", "w3": "up"}[matrix]), {})[int(expert)] = value
        elif stem in ("block_sparse_moe.input_linear", "shared_mlp.input_linear"):
            kind = "exps" if "sparse" in stem else "shexp"
            for part, half in zip(("gate", "up"), np.split(value, 2, axis=-2)):
                yield f"{block}ffn_{part}_{kind}.weight", half
        elif rest.endswith("e_score_correction_bias"):
            yield block + "exp_probs_b.bias", value
        elif rest == "mamba.A_log":
            yield block + "ssm_a", -np.exp(value).reshape(-1, 1)
        elif rest == "mamba.D":
            yield block + "ssm_d", value.reshape(-1, 1)
        elif rest == "mamba.dt_bias":
            yield block + "ssm_dt.bias", value
        elif rest == "mamba.norm.weight":
            yield block + "ssm_norm.weight", value.reshape(config["mamba_n_groups"], -1)
        else:
            if value.ndim == 3 and value.shape[1] == 1:  # convolutions
                value = value[:, 0]
            yield f"{block}{(COMMON | names)[stem]}.{suffix}", value
    for (block, part), stack in experts.items():
        yield f"{block}ffn_{part}_exps.weight", np.stack([stack[i] for i in range(len(stack))])


def add_tokenizer(writer):
    """The golden models have one tokenizer; the llama twin has it already."""
    for name, field in gguf.GGUFReader(HERE / "llama.gguf").fields.items():
        if not name.startswith("tokenizer."):
            continue
        value, kind = field.contents(), field.types[0]
        if kind == gguf.GGUFValueType.ARRAY:
            writer.add_array(name, value)
        else:
            writer.add_key_value(name, value, kind)


def write(folder, arch, names=None, permute=False, epsilon="rms_norm_eps", extra=lambda writer, config: None):
    config = json.loads((GOLDEN / folder / "config.json").read_text())
    writer = gguf.GGUFWriter(HERE / f"{folder}.gguf", arch)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_layer_norm_rms_eps(config[epsilon])
    rope = config["rope_parameters"]
    writer.add_rope_freq_base(rope["rope_theta"])
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_dimension_count(int(head_dim * rope.get("partial_rotary_factor", 1)))
    kinds = config.get("layer_types") or ["full_attention"] * config["num_hidden_layers"]
    if all(kind == "full_attention" for kind in kinds):
        writer.add_head_count_kv(config["num_key_value_heads"])
    else:
        writer.add_head_count_kv([config["num_key_value_heads"] if kind == "full_attention" else 0 for kind in kinds])
    extra(writer, config)
    add_tokenizer(writer)
    for name, value in twin_tensors(load_file(GOLDEN / folder / "model.safetensors"), config, names or {}, permute):
        writer.add_tensor(name, np.ascontiguousarray(value, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def ministral(writer, config):
    rope = config["rope_parameters"]
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    writer.add_rope_scaling_factor(rope["factor"])
    writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    writer.add_float32("mistral3.rope.scaling.yarn_log_multiplier", 0.1 * rope["mscale_all_dim"])
    writer.add_float32("mistral3.attention.temperature_scale", rope["llama_4_scaling_beta"])


def granite(writer, config):
    writer.add_attention_scale(config["attention_multiplier"])
    writer.add_embedding_scale(config["embedding_multiplier"])
    writer.add_residual_scale(config["residual_multiplier"])
    writer.add_logit_scale(config["logits_scaling"])
    writer.add_expert_count(config["num_local_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_expert_shared_feed_forward_length(config["shared_intermediate_size"])
    writer.add_ssm_conv_kernel(config["mamba_d_conv"])
    writer.add_ssm_state_size(config["mamba_d_state"])
    writer.add_ssm_group_count(config["mamba_n_groups"])
    writer.add_ssm_inner_size(config["mamba_expand"] * config["hidden_size"])
    writer.add_ssm_time_step_rank(config["mamba_n_heads"])
    writer.add_rope_scaling_finetuned(False)


def minimax(writer, config):
    writer.add_expert_count(config["num_local_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_expert_feed_forward_length(config["intermediate_size"])
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)


if __name__ == "__main__":
    write("ministral3", "mistral3", permute=True, extra=ministral)
    write("granitemoehybrid", "granitehybrid", GRANITE, permute=True, extra=granite)
    write("minimax_m2", "minimax-m2", MINIMAX, extra=minimax)
    write("lfm2_no_bias", "lfm2", LFM2, epsilon="norm_eps",
          extra=lambda writer, config: writer.add_uint32("lfm2.shortconv.l_cache", config["conv_L_cache"]))
    status_file = HERE / "status.json"
    status = json.loads(status_file.read_text())
    for name in ("ministral3", "granitemoehybrid", "minimax_m2", "lfm2_no_bias"):
        status["models"][name] = {"status": "made by make_twins.py, not checked with llama.cpp",
                                  "bytes": (HERE / f"{name}.gguf").stat().st_size}
    status_file.write_text(json.dumps(status, indent=1) + "\n")
