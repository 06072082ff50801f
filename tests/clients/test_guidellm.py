"""guidellm, a load generator: its report of a run against the server is whole, and its counts of tokens are right."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

# In an environment of its own, beside this one: it wants other versions of common packages.
GUIDELLM = pathlib.Path(sys.executable).parents[2] / "guidellm" / "bin" / "guidellm"
NUM_PROMPTS = 24


@pytest.mark.parametrize("route", ["text_completions", "chat_completions"])
def test_report(server, tmp_path, route):
    prompts = [f"Question {i}: " + "what comes after this word? " * (1 + i % 5) for i in range(NUM_PROMPTS)]
    lengths = {prompt: 4 + 3 * (i % 7) for i, prompt in enumerate(prompts)}
    data = tmp_path / "prompts.jsonl"
    data.write_text("".join(json.dumps({"prompt": prompt, "output_tokens": lengths[prompt]}) + "\n" for prompt in prompts))
    command = [GUIDELLM, "benchmark", "run", "--target", server.url, "--model", server.model, "--data", data,
               "--rate-type", "concurrent", "--rate", "6", "--max-requests", str(NUM_PROMPTS),
               "--output-path", tmp_path / "report.json", "--disable-progress"]
    run = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=tmp_path,
                         env={**os.environ, "GUIDELLM__PREFERRED_ROUTE": route, "GUIDELLM__MAX_WORKER_PROCESSES": "2", "HF_HUB_OFFLINE": "1",
                              "HF_HOME": str(tmp_path / "hf")})
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-3000:]
    (benchmark,) = json.loads((tmp_path / "report.json").read_text())["benchmarks"]
    made = benchmark["run_stats"]["requests_made"]
    assert (made["successful"], made["errored"], made["incomplete"]) == (NUM_PROMPTS, 0, 0), made

    requests = benchmark["requests"]["successful"]
    assert sorted(request["prompt"] for request in requests) == sorted(prompts)
    for request in requests:
        assert request["output_tokens"] == lengths[request["prompt"]], request
        body = {"prompt": request["prompt"]} if route == "text_completions" else {
            "messages": [{"role": "user", "content": request["prompt"]}]}
        assert request["prompt_tokens"] == server.http.post("/tokenize", json=body).json()["count"], request
        assert request["output"], request
    metrics = benchmark["metrics"]
    for name in ("prompt_token_count", "output_token_count"):
        total = metrics[name]["successful"]["total_sum"]
        assert total == sum(request[name.replace("_token_count", "_tokens")] for request in requests), name
