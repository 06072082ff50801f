"""schemathesis reads /openapi.json and sends what it allows and what it forbids: no 5xx, no answer that the
document does not describe, nothing accepted that it forbids."""
import pathlib
import subprocess
import sys

from quire_process import ROOT

TINY = ROOT / "tests" / "golden" / "llama"
# Not looked at: whether everything that the document allows is accepted. Rules between fields (min_tokens and
# max_tokens, stream_options and stream) and what depends on the model (token ids, lengths) are no part of it.
NOT_CHECKED = "positive_data_acceptance"


def test_no_contract_violation(start, tmp_path):
    server = start(TINY, "--max-model-len", "64", "--max-num-seqs", "8", "--enable-tokenizer-info-endpoint")
    command = [str(pathlib.Path(sys.executable).parent / "schemathesis"), "run", server.url + "/openapi.json",
               "--checks", "all", "--exclude-checks", NOT_CHECKED, "--phases", "examples,coverage,fuzzing",
               "--max-examples", "60", "--seed", "7", "--generation-database", "none", "--request-timeout", "60",
               # Its own: most random texts can't stand in the path of /v1/models/{id}.
               "--suppress-health-check", "filter_too_much"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    print(run.stdout[-6000:])
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
    assert server.http.get("/health").status_code == 200
    server.wait_until_idle()
