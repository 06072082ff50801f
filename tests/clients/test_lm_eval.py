"""lm-eval's local-completions: log-likelihoods of transformers' own answers are those that transformers gave them, and
on a small task of our own they are those of the server's scores and rank the right choices first."""
import json
import pathlib
import subprocess
import sys

import pytest
import yaml
from quire_process import ROOT

TASKS = pathlib.Path(__file__).resolve().parent / "lm_eval_tasks"
GOLDEN = json.loads((ROOT / "tests" / "golden-real" / "smollm2-135m.json").read_text())
TOLERANCE_PER_TOKEN = 2e-3  # as tests/e2e/test_golden_real.py: another order of float32 additions over 30 layers


@pytest.fixture(scope="module")
def exact(start, model):
    """The arithmetic that is compared with transformers."""
    return start(model, "--dtype", "float32", "--max-model-len", "2048", "--enable-tokenizer-info-endpoint")


def ids_of(server, text):
    reply = server.http.post("/tokenize", json={"prompt": text, "add_special_tokens": False})
    return reply.json()["tokens"]


def run_task(server, tasks, name, out):
    """The samples of a task, as lm-eval logs them, in the order of its documents."""
    arguments = [f"model={server.model}", f"base_url={server.url}/v1/completions", "num_concurrent=4", "max_retries=1",
                 "tokenizer_backend=remote"]
    command = [sys.executable, "-m", "lm_eval", "--model", "local-completions", "--model_args", ",".join(arguments),
               "--include_path", str(tasks), "--tasks", name, "--log_samples", "--output_path", str(out)]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    (samples,) = out.rglob(f"samples_{name}_*.jsonl")
    return sorted(map(json.loads, samples.read_text().splitlines()), key=lambda line: line["doc_id"])


def answers_of(line):
    """(log-likelihood, whether greedy) of each request of a sample."""
    return [(float(answer[0]), str(answer[1]) == "True") for answer in line["filtered_resps"]]


def golden_documents(server):
    """Prompts with transformers' greedy answers, where the text of both gives the same tokens again."""
    for case in GOLDEN["cases"]:
        answer = [token for token in case["greedy_token_ids"] if token != GOLDEN["eos_token_id"]]
        whole = case["prompt_token_ids"] + answer
        if not answer or ids_of(server, case["rendered"] + case["greedy_text"]) != whole:
            continue
        scores = case["prompt_logprobs"] + [top[0][1] for top in case["top5_logprobs"]]
        # lm-eval counts white space at the end of the context to the continuation.
        head = len(ids_of(server, case["rendered"].rstrip()))
        yield {"context": case["rendered"], "continuation": case["greedy_text"],
               "tokens": len(whole) - head, "loglikelihood": sum(scores[head:len(whole)]),
               "greedy": head == len(case["prompt_token_ids"]) and min(case["top1_margin"]) > 0.02}


def test_loglikelihoods_are_those_of_transformers(exact, tmp_path):
    documents = list(golden_documents(exact))
    assert len(documents) >= 8 and sum(doc["greedy"] for doc in documents) >= 2
    data = tmp_path / "golden.jsonl"
    data.write_text("".join(json.dumps(doc) + "\n" for doc in documents))
    task = {"task": "quire_golden", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(data)}},
            "test_split": "test", "output_type": "loglikelihood", "doc_to_text": "{{context}}",
            "doc_to_target": "{{continuation}}", "target_delimiter": "",
            "metric_list": [{"metric": "perplexity", "aggregation": "perplexity", "higher_is_better": False}]}
    (tmp_path / "golden.yaml").write_text(yaml.safe_dump(task))
    lines = run_task(exact, tmp_path, "quire_golden", tmp_path / "out")
    assert len(lines) == len(documents)
    for line, doc in zip(lines, documents):
        ((found, greedy),) = answers_of(line)
        assert abs(found - doc["loglikelihood"]) <= TOLERANCE_PER_TOKEN * doc["tokens"], (doc, found)
        assert greedy or not doc["greedy"], doc


def scores_of(server, context, continuation):
    head, whole = ids_of(server, context), ids_of(server, context + continuation)
    reply = server.completion(prompt=whole, max_tokens=1, echo=True, logprobs=1, add_special_tokens=False)
    return sum(reply["choices"][0]["logprobs"]["token_logprobs"][len(head):len(whole)])


def test_choices(exact, tmp_path):
    lines = run_task(exact, TASKS, "quire_capitals", tmp_path)
    assert len(lines) == 6
    right = 0
    for line in lines:
        found, doc = [value for value, _ in answers_of(line)], line["doc"]
        want = [scores_of(exact, doc["question"], choice) for choice in doc["choices"]]
        assert found == pytest.approx(want, abs=1e-4), doc
        right += max(range(3), key=found.__getitem__) == doc["answer"]
    assert right >= 4  # the model knows some of it
