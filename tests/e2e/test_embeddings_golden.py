"""/v1/embeddings against the hidden states of transformers, pooled in each way. A golden file holds transformers' logits
for every token of a prompt, a linear function of the last hidden state with more rows than columns: the states come back
from them by least squares, as exactly as the logits are stored."""
import base64
import json
import shutil

import numpy as np
import pytest
from quire_process import ROOT
from safetensors.numpy import load_file

# Between the last norm and the logits: nothing, ties, biases, multipliers, a soft cap.
MODELS = ["llama", "qwen3", "gemma2", "gemma3_text", "phi", "gpt2", "cohere2", "granite", "minicpm3", "deepseek_v3",
          "mamba2", "lfm2", "qwen3_next"]
POOLINGS = {"mean_tokens": lambda states: states.mean(axis=0), "cls_token": lambda states: states[0],
            "lasttoken": lambda states: states[-1]}
HEADS = ("lm_head.weight", "embed_out.weight")


def head_of(weights):
    """[vocabulary, hidden]: of its own, or the embedding."""
    for name in HEADS:
        if name in weights:
            return weights[name]
    (name,) = [name for name in weights if name.endswith(("embed_tokens.weight", "wte.weight", "embeddings.weight"))]
    return weights[name]


def states_of(folder, golden, prompt):
    """[tokens, hidden] float64: what transformers' last norm gave."""
    config = json.loads((folder / "config.json").read_text())
    weights = {name: tensor for file in folder.glob("model*.safetensors") for name, tensor in load_file(file).items()}
    head = head_of(weights).astype(np.float64)
    logits = golden[f"{prompt}.logits"].astype(np.float64)
    if cap := config.get("final_logit_softcapping"):
        logits = cap * np.arctanh(logits / cap)
    logits = logits - weights.get("lm_head.bias", np.zeros(len(head)))
    logits = logits * config.get("logits_scaling", 1) / config.get("logit_scale", 1)
    if "dim_model_base" in config:
        logits = logits * config["hidden_size"] / config["dim_model_base"]
    states, _, rank, _ = np.linalg.lstsq(head, logits.T, rcond=None)
    assert rank == head.shape[1] and np.allclose(head @ states, logits.T, atol=2e-4), "not linear in the hidden states"
    return states.T


def pooled_copy(folder, to, mode):
    shutil.copytree(folder, to)
    types = "sentence_transformers.models."
    (to / "modules.json").write_text(json.dumps([
        {"idx": 0, "name": "0", "path": "", "type": types + "Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": types + "Pooling"}]))
    (to / "1_Pooling").mkdir()
    (to / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_" + mode: True}))
    return to


@pytest.mark.parametrize("mode", POOLINGS)
@pytest.mark.parametrize("name", MODELS)
def test_pooled_states_are_those_of_transformers(start, tmp_path, name, mode):
    folder = ROOT / "tests" / "golden" / name
    golden = load_file(folder / "golden.safetensors")
    server = start(pooled_copy(folder, tmp_path / name, mode), "--dtype", "float32", "--max-num-seqs", "4",
                   "--max-model-len", "64")
    for prompt in ("prompt_1", "prompt_2"):
        want = POOLINGS[mode](states_of(folder, golden, prompt))
        reply = server.http.post("/v1/embeddings", json={"input": golden[f"{prompt}.input_ids"].tolist(),
                                                         "encoding_format": "base64", "normalize": False})
        assert reply.status_code == 200, reply.text[:500]
        found = np.frombuffer(base64.b64decode(reply.json()["data"][0]["embedding"]), "<f4")
        assert np.abs(found - want).max() <= 2e-4 * max(1.0, np.abs(want).max())
    server.kill()
