"""lm-eval's local-completions on a small task of our own. Its log-likelihoods are held against those that the
server gives for prompt and choice directly, and its choices against their order."""
import json
import pathlib
import subprocess
import sys

from quire_process import ROOT

TASKS = pathlib.Path(__file__).resolve().parent / "lm_eval_tasks"


def loglikelihood(server, context, continuation):
    def ids(text):
        return server.http.post("/tokenize", json={"prompt": text, "add_special_tokens": False}).json()["tokens"]
    head, whole = ids(context), ids(context + continuation)
    reply = server.completion(prompt=whole, max_tokens=1, echo=True, logprobs=1, add_special_tokens=False)
    values = reply["choices"][0]["logprobs"]["token_logprobs"]
    return sum(values[len(head):len(whole)])


def test_loglikelihoods(start, model, tmp_path):
    server = start(model, "--max-model-len", "2048", "--enable-tokenizer-info-endpoint")
    arguments = [f"model={server.model}", f"base_url={server.url}/v1/completions", "num_concurrent=4",
                 "max_retries=1", "tokenizer_backend=remote"]
    command = [sys.executable, "-m", "lm_eval", "--model", "local-completions", "--model_args", ",".join(arguments),
               "--include_path", str(TASKS), "--tasks", "quire_capitals", "--log_samples",
               "--output_path", str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    (samples,) = tmp_path.rglob("samples_quire_capitals_*.jsonl")
    lines = [json.loads(line) for line in samples.read_text().splitlines()]
    assert len(lines) == 6
    right = 0
    for line in lines:
        found = [float(answer[0]) if not isinstance(answer[0], list) else float(answer[0][0])
                 for answer in line["filtered_resps"]]
        doc = line["doc"]
        want = [loglikelihood(server, doc["question"], choice) for choice in doc["choices"]]
        for a, b in zip(found, want):
            assert abs(a - b) < 1e-4, (doc, found, want)
        right += max(range(3), key=found.__getitem__) == doc["answer"]
    assert right >= 4  # the model knows some of it
