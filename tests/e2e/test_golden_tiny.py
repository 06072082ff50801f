"""Tiny models of the Llama family, from Hugging Face folders and GGUF files: every log-probability, over HTTP."""
import json

import numpy as np
import pytest
from quire_process import ROOT
from safetensors.numpy import load_file

FOLDERS = ["llama", "llama_tied_bias", "llama_rope_llama3", "llama_rope_linear", "mistral", "mistral_full"]
GGUF = ["llama", "llama.F16", "llama.BF16", "llama.Q4_0", "llama.Q4_1", "llama.Q5_0", "llama.Q5_1", "llama.Q8_0"]
VOCAB = 512
LOGIT_TOLERANCE = 5e-4  # float32 with another order of additions
LOGPROB_TOLERANCE = 2 * LOGIT_TOLERANCE  # the normalization moves too


def log_softmax(logits):
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def all_logprobs(server, ids):
    """[len(ids), VOCAB]: the log-probabilities after each token."""
    reply = server.completion(prompt=ids, max_tokens=1, prompt_logprobs=VOCAB, logprobs=VOCAB, ignore_eos=True,
                              return_tokens_as_token_ids=True)
    choice = reply["choices"][0]
    rows = np.full((len(ids), VOCAB), np.nan)
    for i, entry in enumerate(choice["prompt_logprobs"][1:]):
        for token, value in entry.items():
            rows[i, int(token)] = value["logprob"]
    for token, value in choice["logprobs"]["top_logprobs"][0].items():
        rows[-1, int(token.removeprefix("token_id:"))] = value
    assert not np.isnan(rows).any(), "not every token of the vocabulary has a log-probability"
    return rows


def check(server, golden):
    for i in range(3):
        ids = golden[f"prompt_{i}.input_ids"].tolist()
        expected = log_softmax(golden[f"prompt_{i}.logits"])
        found = all_logprobs(server, ids)
        worst = np.abs(found - expected).max()
        assert worst <= LOGPROB_TOLERANCE, f"prompt {i}: off by {worst}"
        if f"prompt_{i}.greedy_tokens" in golden:
            tokens = golden[f"prompt_{i}.greedy_tokens"].tolist()
            reply = server.completion(prompt=ids, max_tokens=len(tokens), ignore_eos=True, return_token_ids=True)
            assert reply["choices"][0]["token_ids"] == tokens


@pytest.mark.parametrize("name", FOLDERS)
def test_hugging_face_folder(start, name):
    folder = ROOT / "tests" / "golden" / name
    server = start(folder, "--dtype", "float32", "--max-logprobs", VOCAB, "--max-num-seqs", "4")
    check(server, load_file(folder / "golden.safetensors"))
    server.kill()


@pytest.mark.parametrize("name", GGUF)
def test_gguf_file(start, name):
    gguf = ROOT / "tests" / "golden-gguf"
    own = gguf / f"{name}.golden.safetensors"
    golden = load_file(own if own.exists() else ROOT / "tests" / "golden" / "llama" / "golden.safetensors")
    server = start(gguf / f"{name}.gguf", "--dtype", "float32", "--max-logprobs", VOCAB, "--max-num-seqs", "4")
    check(server, golden)
    server.kill()


def test_tokenizer_golden(start):
    golden = json.loads((ROOT / "tests" / "golden" / "tokenizer_golden.json").read_text())
    server = start(ROOT / "tests" / "golden" / "llama", "--dtype", "float32", "--max-num-seqs", "4")
    for text, ids in texts_of(golden):
        reply = server.http.post("/tokenize", json={"model": server.model, "prompt": text})
        assert reply.json()["tokens"] == ids, text
        reply = server.http.post("/detokenize", json={"model": server.model, "tokens": ids})
        assert reply.json()["prompt"] == text
    server.kill()


def texts_of(golden):
    return [(entry["text"], entry["ids"]) for entry in golden["texts"]]
