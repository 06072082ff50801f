"""/v1/embeddings: the same bits however they are computed; pooling as the model's files say. A causal model's
state at a token is its last state on the text that ends there, which is the oracle of mean and first."""
import base64
import json
import shutil

import numpy as np
import pytest
from quire_process import ROOT

TINY = ROOT / "tests" / "golden" / "llama"
WORDS = "the quick brown fox jumps over the lazy dog and runs through the green field until the evening comes".split()


def embed(server, inputs, status=200, **fields):
    reply = server.http.post("/v1/embeddings", json={"input": inputs, **fields})
    assert reply.status_code == status, reply.text[:500]
    return reply.json()


def vectors(server, inputs, **fields):
    data = embed(server, inputs, encoding_format="base64", **fields)["data"]
    assert [item["index"] for item in data] == list(range(len(data)))
    return np.stack([np.frombuffer(base64.b64decode(item["embedding"]), "<f4") for item in data])


def cosine(a, b):
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_shape_usage_and_length(server):
    body = embed(server, ["Hello there.", "Hi"])
    assert body["object"] == "list" and body["model"] == server.model
    assert [item["object"] for item in body["data"]] == ["embedding", "embedding"]
    tokens = sum(server.http.post("/tokenize", json={"prompt": p}).json()["count"] for p in ("Hello there.", "Hi"))
    assert body["usage"] == {"prompt_tokens": tokens, "completion_tokens": 0, "total_tokens": tokens}
    for item in body["data"]:
        assert abs(np.linalg.norm(item["embedding"]) - 1) < 1e-5


def test_base64_dimensions_and_normalize(server):
    plain = np.array(embed(server, "Hello")["data"][0]["embedding"], np.float32)
    packed = vectors(server, "Hello")[0]
    assert np.allclose(plain, packed, atol=1e-7)
    raw = vectors(server, "Hello", normalize=False)[0]
    assert np.linalg.norm(raw) > 1.5 and cosine(raw, packed) > 0.999999
    short = vectors(server, "Hello", dimensions=64)[0]
    assert short.shape == (64,) and abs(np.linalg.norm(short) - 1) < 1e-5
    assert np.allclose(short, raw[:64] / np.linalg.norm(raw[:64]), atol=1e-6)


def test_text_and_its_ids_give_the_same(server):
    ids = server.http.post("/tokenize", json={"prompt": "Hello there."}).json()["tokens"]
    assert (vectors(server, [ids]) == vectors(server, "Hello there.")).all()


def test_near_texts_are_nearer(server):
    cat, kitten, tax = vectors(server, ["The cat sleeps on the sofa.", "A kitten is sleeping on the couch.",
                                        "Income tax returns are due in April."])
    assert cosine(cat, kitten) > cosine(cat, tax)


def test_bits_do_not_depend_on_batch_or_chunks(server, start, model):
    texts = [" ".join(WORDS * n) for n in (1, 2, 5, 9)]
    alone = [vectors(server, text)[0] for text in texts]
    together = vectors(server, texts)
    chunked = vectors(start(model, "--max-num-batched-tokens", "16", "--max-model-len", "2048"), texts)
    for one, two, three in zip(alone, together, chunked):
        assert (one == two).all() and (one == three).all()


@pytest.mark.parametrize("mode", ["mean_tokens", "cls_token", "lasttoken"])
def test_pooling_of_the_models_files(start, tmp_path_factory, mode):
    folder = tmp_path_factory.mktemp("pooled") / "llama"
    shutil.copytree(TINY, folder)
    types = "sentence_transformers.models."
    (folder / "modules.json").write_text(json.dumps([
        {"idx": 0, "name": "0", "path": "", "type": types + "Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": types + "Pooling"}]))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_" + mode: True}))
    flags = ["--dtype", "float32", "--max-num-batched-tokens", "8"]
    last = start(TINY, *flags)
    pooled = start(folder, *flags)
    ids = [5, 17, 3, 99, 42, 7, 7, 60, 12, 31, 8, 2, 77, 54, 23, 11, 6, 90, 33]
    prefixes = [ids[:n] for n in range(1, len(ids) + 1)]
    states = vectors(last, prefixes, normalize=False).astype(np.float64)
    want = {"mean_tokens": states.mean(axis=0), "cls_token": states[0], "lasttoken": states[-1]}[mode]
    for _ in range(2):  # the second time a prefix could be cached
        got = vectors(pooled, [ids])[0]
        assert np.allclose(got, want, rtol=1e-5, atol=1e-6)


def test_a_model_that_needs_more_is_refused(start, tmp_path_factory):
    folder = tmp_path_factory.mktemp("dense") / "llama"
    shutil.copytree(TINY, folder)
    (folder / "modules.json").write_text(json.dumps([{"type": "sentence_transformers.models.Dense", "path": "2_Dense"}]))
    error = embed(start(folder), [[1, 2]], status=400)["error"]
    assert "Dense" in error["message"]


@pytest.mark.parametrize("fields, param", [({"input": []}, "input"), ({}, "input"), ({"input": ""}, "input"),
                                           ({"input": "x", "dimensions": 0}, "dimensions"),
                                           ({"input": "x", "dimensions": 10**6}, "dimensions"),
                                           ({"input": "x", "encoding_format": "int8"}, "encoding_format"),
                                           ({"input": [[10**8]]}, "input"),
                                           ({"input": "word " * 5000}, "input")])
def test_bad_requests_name_the_field(server, fields, param):
    reply = server.http.post("/v1/embeddings", json=fields)
    assert reply.status_code == 400 and reply.json()["error"]["param"] == param, reply.text


def test_openai_sdk(server):
    import openai
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none")
    reply = client.embeddings.create(model=server.model, input=["Hello", "there"])  # the SDK asks for base64
    assert len(reply.data) == 2 and len(reply.data[0].embedding) > 64
