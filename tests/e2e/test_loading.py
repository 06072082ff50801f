"""Flags that say what of a model is read: sampling defaults, overrides, tokenizers, made-up and damaged weights."""
import json
import shutil

import numpy as np
import pytest
from quire_process import ROOT, run_quire
from safetensors.numpy import load_file, save_file

LLAMA = ROOT / "tests" / "golden" / "llama"
MOE = ROOT / "tests" / "golden" / "qwen3_moe"


def generate(binary, model, *flags, prompt="hello"):
    return run_quire(binary, "generate", model, "-p", prompt, "-n", 4, "--verbose", *flags)


def error_of(done):
    assert done.returncode == 1, done.stderr
    return done.stderr.strip().splitlines()[-1]


@pytest.fixture
def folder(tmp_path):
    """A copy of the tiny Llama that a test may damage."""
    copy = tmp_path / "llama"
    shutil.copytree(LLAMA, copy, ignore=shutil.ignore_patterns("golden.*"))
    return copy


def edit(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def sampled(server):
    """Three answers of a request that says nothing of sampling but its seed."""
    body = {"model": server.model, "prompt": "hello", "max_tokens": 8}
    return [server.http.post("/v1/completions", json={**body, "seed": s}).json()["choices"][0]["text"] for s in (1, 2, 3)]


def test_generation_config(start, folder, tmp_path):
    edit(folder / "generation_config.json", temperature=0.0)

    def answers(*flags):
        server = start(folder, "--max-num-seqs", "4", *flags)
        found = sampled(server)
        server.kill()
        return len(set(found))
    assert answers() == 1, "the model's own temperature of 0 is greedy"
    assert answers("--generation-config", "vllm") > 1
    assert answers("--override-generation-config", '{"temperature": 1.0}') > 1
    other = tmp_path / "other"
    other.mkdir()
    (other / "generation_config.json").write_text('{"temperature": 1.0}')
    assert answers("--generation-config", other) > 1
    assert answers("--generation-config", other / "generation_config.json", "--override-generation-config",
                   '{"top_k": 1}') == 1


def test_generation_config_that_cannot_be_read(binary):
    assert "/no/such/file" in error_of(generate(binary, LLAMA, "--generation-config", "/no/such/file"))
    message = error_of(generate(binary, LLAMA, "--override-generation-config", '{"temperature"'))
    assert "--override-generation-config" in message and "JSON" in message


def test_hf_overrides(binary):
    done = generate(binary, LLAMA, "--hf-overrides", '{"max_position_embeddings": 96}')
    assert done.returncode == 0 and "of 96 tokens" in done.stderr, done.stderr
    assert "--hf-overrides" in error_of(generate(binary, LLAMA, "--hf-overrides", "[1]"))
    message = error_of(generate(binary, ROOT / "tests" / "golden-gguf" / "llama.gguf", "--hf-overrides", "{}"))
    assert "GGUF" in message


def test_tokenizer_of_another_place(binary, folder, tmp_path):
    expected = generate(binary, folder).stdout
    other = tmp_path / "tokenizer"
    other.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).rename(other / name)
    assert "--tokenizer" in error_of(generate(binary, folder))
    assert generate(binary, folder, "--tokenizer", other).stdout == expected
    assert generate(binary, folder, "--tokenizer", other / "tokenizer.json").stdout == expected
    assert "no such file or folder" in error_of(generate(binary, folder, "--tokenizer", tmp_path / "none"))
    assert "tokenizer.json" in error_of(generate(binary, folder, "--tokenizer", tmp_path))


def test_tensors_left_over_are_a_warning(binary, folder):
    weights = load_file(folder / "model.safetensors")
    more = {f"model.extra.{i:02}": np.zeros(2, np.float32) for i in range(12)}
    save_file({**weights, **more, "model.rotary_emb.inv_freq": np.zeros(2, np.float32)}, folder / "model.safetensors")
    done = generate(binary, folder)
    assert done.returncode == 0
    warning = next(line for line in done.stderr.splitlines() if " warning " in line)
    assert "12 tensors" in warning and "model.extra.09" in warning and "model.extra.10" not in warning, warning
    assert "2 more" in warning and "inv_freq" not in warning


def test_tensors_missing_are_counted(binary, folder):
    weights = load_file(folder / "model.safetensors")
    save_file({n: w for n, w in weights.items() if "q_proj" not in n}, folder / "model.safetensors")
    message = error_of(generate(binary, folder))
    assert "3 tensors are missing" in message and "model.layers.2.self_attn.q_proj.weight" in message


def test_dummy_weights(binary, folder):
    (folder / "model.safetensors").unlink()
    assert error_of(generate(binary, folder))
    first = generate(binary, folder, "--load-format", "dummy", "--hf-overrides", '{"num_hidden_layers": 7}')
    assert first.returncode == 0 and "dummy weights" in first.stderr, first.stderr
    again = generate(binary, folder, "--load-format", "dummy", "--hf-overrides", '{"num_hidden_layers": 7}')
    other = generate(binary, folder, "--load-format", "dummy", "--hf-overrides", '{"num_hidden_layers": 7}', "--seed", 5)
    assert first.stdout == again.stdout != other.stdout


@pytest.mark.parametrize("name", ["qwen3_moe", "deepseek_v3", "gpt2", "gemma2", "cohere2", "llama4_text", "apertus", "gpt_oss",
                                  "mamba", "mamba2", "jamba", "qwen3_next", "lfm2"])
def test_dummy_weights_of_a_family(binary, name):
    done = generate(binary, ROOT / "tests" / "golden" / name, "--load-format", "dummy", "--check-weights")
    assert done.returncode == 0 and "dummy weights" in done.stderr, done.stderr


def test_dummy_weights_need_a_configuration(binary, tmp_path):
    assert "config.json" in error_of(generate(binary, tmp_path, "--load-format", "dummy"))


def test_inspect_says_the_memory_of_a_configuration(binary, folder):
    (folder / "model.safetensors").unlink()
    done = run_quire(binary, "inspect", folder, "--load-format", "dummy", "--hf-overrides", '{"num_hidden_layers": 40}')
    assert done.returncode == 0 and "memory needed" in done.stdout, done.stderr


def test_tokenizer_larger_than_the_embedding(binary, folder):
    weights = load_file(folder / "model.safetensors")
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        weights[name] = weights[name][:300].copy()
    save_file(weights, folder / "model.safetensors")
    message = error_of(generate(binary, folder))
    assert "[300, 64]" in message and "[512, 64]" in message, "the configuration and the weights disagree"
    edit(folder / "config.json", vocab_size=300)
    message = error_of(generate(binary, folder))
    assert "512 tokens" in message and "300" in message, message


@pytest.mark.parametrize("value,word", [(np.nan, "NaN"), (np.inf, "infinity")])
def test_check_weights(binary, folder, value, word):
    assert generate(binary, folder, "--check-weights").returncode == 0
    weights = load_file(folder / "model.safetensors")
    weights["model.layers.1.mlp.up_proj.weight"][3, 5] = value
    save_file(weights, folder / "model.safetensors")
    message = error_of(generate(binary, folder, "--check-weights"))
    assert "model.layers.1.mlp.up_proj.weight" in message and word in message and "row 3, column 5" in message
