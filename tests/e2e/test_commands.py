"""The command line: what users type and get wrong. Errors are one clear line; exit code 2 for a command line
that cannot be understood, 1 for everything else."""
import json
import socket

import pytest
from quire_process import ROOT, run_quire

TINY = ROOT / "tests" / "golden-gguf" / "llama.gguf"


def fails_with(done, *words, codes=(1,)):
    """The exit code, and a last line on stderr that has all the words."""
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert done.returncode in codes, f"exit code {done.returncode}\n{done.stderr}"
    last = lines[-1]
    for word in words:
        assert word in last, f"no {word!r} in: {done.stderr}"
    assert "terminate called" not in done.stderr and "Sanitizer" not in done.stderr
    return last


def test_version_names_the_version_and_the_kernels(binary):
    done = run_quire(binary, "--version")
    assert done.returncode == 0
    assert "quire" in done.stdout.lower() and "0.1.0" in done.stdout
    assert any(isa in done.stdout for isa in ("ref", "avx2", "avx_vnni", "avx512", "vnni", "bf16", "amx", "neon", "i8mm"))


@pytest.mark.parametrize("command", [[], ["serve"], ["generate"], ["chat"], ["inspect"]])
def test_help(binary, command):
    done = run_quire(binary, *command, "--help")
    assert done.returncode == 0
    assert "Usage" in done.stdout or "usage" in done.stdout
    if command == ["serve"]:
        for flag in ("--port", "--max-model-len", "--served-model-name", "--gpu-memory-utilization", "--kv-cache-dtype"):
            assert flag in done.stdout


def test_unknown_flag_suggests_the_nearest(binary, model):
    fails_with(run_quire(binary, "serve", model, "--max-modell-len", "5"), "--max-modell-len", "--max-model-len", codes=(2,))


def test_flag_of_vllm_that_is_not_built_is_refused_by_name(binary, model):
    fails_with(run_quire(binary, "serve", model, "--tensor-parallel-size", "2"), "--tensor-parallel-size", codes=(2,))


@pytest.mark.parametrize("flags", [["--port", "99999"], ["--max-model-len", "many"], ["--dtype", "int3"],
                                   ["--block-size", "7"], ["--kernels", "sse9"], ["--gpu-memory-utilization", "7"]])
def test_bad_flag_value_is_named(binary, flags):
    fails_with(run_quire(binary, "serve", TINY, *flags), flags[0], codes=(1, 2))


def test_every_table_of_kernels_can_be_forced(binary):
    """Each one that this machine has is named by the log when it is asked for, and the last of them without."""
    refused = run_quire(binary, "generate", "--model", TINY, "--prompt", "hi", "--kernels", "none")
    names = fails_with(refused, "--kernels none").split("this machine has auto, ")[1].split(", ")
    assert names[0] == "ref"
    for asked in [*names, "auto"]:
        done = run_quire(binary, "generate", "--model", TINY, "--prompt", "hi", "--max-tokens", 2, "--temperature", 0,
                         "--threads", 1, "--kernels", asked, "--verbose")
        assert done.returncode == 0, done.stderr
        wanted = names[-1] if asked == "auto" else asked
        assert f"packed for cpu ({wanted}, 1 thread)" in done.stderr, done.stderr


@pytest.mark.parametrize("asked, kept", [("float32", "F32"), ("bfloat16", "BF16"), ("float16", "F16"), ("int8", "I8")])
def test_kv_cache_dtype_is_the_one_kept(binary, asked, kept):
    done = run_quire(binary, "generate", "--model", TINY, "--prompt", "hi", "--max-tokens", 20, "--temperature", 0,
                     "--threads", 1, "--kv-cache-dtype", asked, "--verbose")
    assert done.returncode == 0, done.stderr
    assert f"tokens ({kept})" in done.stderr, done.stderr
    assert "output: 20 tokens" in done.stderr, done.stderr


def test_missing_model(binary):
    fails_with(run_quire(binary, "serve", "no/such/model.gguf"), "no/such/model.gguf")


def test_port_taken(binary):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        fails_with(run_quire(binary, "serve", TINY, "--port", port), str(port))


def test_context_longer_than_the_model(binary):
    fails_with(run_quire(binary, "serve", TINY, "--max-model-len", "1000000"), "--max-model-len")


def test_memory_for_no_sequence(binary):
    fails_with(run_quire(binary, "serve", TINY, "--max-model-len", "256", "--kv-cache-memory-bytes", "4K"), "--max-model-len", "256")


@pytest.mark.parametrize("command", ["serve", "inspect"])
@pytest.mark.parametrize("share", [0, 3, 10, 50, 99])
def test_truncated_model_file(binary, tmp_path, command, share):
    whole = TINY.read_bytes()
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(whole[:len(whole) * share // 100])
    fails_with(run_quire(binary, command, broken), "broken.gguf")


@pytest.mark.parametrize("damage", ["magic", "version", "tensors", "text"])
def test_damaged_model_file(binary, tmp_path, damage):
    data = bytearray(TINY.read_bytes())
    if damage == "magic":
        data[:4] = b"NOPE"
    elif damage == "version":
        data[4:8] = (99).to_bytes(4, "little")
    elif damage == "tensors":
        data[8:16] = (1 << 60).to_bytes(8, "little")
    else:
        data[:] = b"This is no model.\n" * 100
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(data)
    fails_with(run_quire(binary, "inspect", broken), "broken.gguf")


def folder_without_weights(tmp_path):
    """A model's folder but for its weights, and these."""
    folder = tmp_path / "model"
    folder.mkdir()
    source = ROOT / "tests" / "golden" / "llama"
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((source / name).read_bytes())
    whole = (source / "model.safetensors").read_bytes()
    return folder, whole


def test_truncated_safetensors(binary, tmp_path):
    folder, whole = folder_without_weights(tmp_path)
    (folder / "model.safetensors").write_bytes(whole[:len(whole) // 2])
    fails_with(run_quire(binary, "serve", folder), "model.safetensors")
    (folder / "model.safetensors").unlink()
    fails_with(run_quire(binary, "serve", folder), "safetensors")


def test_matrices_of_integers_are_refused(binary, tmp_path):
    folder, whole = folder_without_weights(tmp_path)
    for name in (b"self_attn.q_proj.weight", b"mlp.down_proj.weight", b"embed_tokens.weight"):
        at = whole.index(b'"F32"', whole.index(name))
        (folder / "model.safetensors").write_bytes(whole[:at] + b'"I32"' + whole[at + 5:])
        fails_with(run_quire(binary, "generate", folder, "--prompt", "hi"), name.decode(), "I32")


def test_inspect_tells_what_a_file_contains(binary, model):
    done = run_quire(binary, "inspect", model)
    assert done.returncode == 0, done.stderr
    for word in ("llama", "Q4_1", "30", "576", "49152"):
        assert word in done.stdout, f"no {word!r} in:\n{done.stdout}"


def test_inspect_of_a_folder(binary):
    done = run_quire(binary, "inspect", ROOT / "tests" / "golden" / "mistral")
    assert done.returncode == 0, done.stderr
    assert "mistral" in done.stdout.lower()


def test_inspect_names_the_quantization(binary):
    for folder, text in [("gptq_llama_desc_act", "gptq, 4 bits, groups of 128, activation order"),
                         ("ct_llama_fp8_channel", "compressed-tensors float-quantized, float8_e4m3, a scale per output"),
                         ("fp8_llama_block128_cut", "fp8, float8_e4m3, blocks of 128 x 128")]:
        done = run_quire(binary, "inspect", ROOT / "tests" / "golden-quant" / folder)
        assert done.returncode == 0, done.stderr
        assert text in done.stdout, done.stdout


def test_quantization_is_checked_against_the_file(binary):
    folder = ROOT / "tests" / "golden-quant" / "awq_llama_g128"
    for asked, text in [("gptq", "the model's weights are awq"), ("int8", "quantized already (awq)")]:
        done = run_quire(binary, "generate", "--model", folder, "--prompt", "a", "--quantization", asked)
        assert done.returncode != 0
        assert text in done.stderr, done.stderr


def test_generate_prints_the_golden_text(binary, model):
    case = json.loads((ROOT / "tests" / "golden-real" / "smollm2-135m.json").read_text())["cases"][0]
    done = run_quire(binary, "generate", "--model", model, "--prompt", case["prompt"], "--max-tokens", len(case["greedy_token_ids"]),
                     "--temperature", "0", "--dtype", "float32", "--verbose")
    assert done.returncode == 0, done.stderr
    assert case["greedy_text"].strip() in done.stdout
    assert "tok/s" in done.stdout + done.stderr


def test_chat_answers_each_line_and_ends_at_end_of_input(binary, model):
    done = run_quire(binary, "chat", "--model", model, "--max-tokens", "16", "--temperature", "0", stdin="Say hello.\nAnd again.\n")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) > 4
