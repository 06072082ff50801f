"""The unmodified OpenAI JavaScript SDK. `make test-js` installs it and names this file to pytest, which does
not collect it by itself: an npm install is not part of `make test`."""
import re
import subprocess

from quire_process import ROOT

FOLDER = ROOT / "tests" / "conformance" / "js"
LATER = set()  # checks that need what is not built


def test_javascript_sdk(server):
    run = subprocess.run(["node", "check.mjs", server.url], cwd=FOLDER, capture_output=True, text=True)
    print(run.stdout)
    assert re.search(r"^\d+ of \d+ checks passed$", run.stdout, re.M), run.stdout + run.stderr
    failed = set(re.findall(r"^FAIL  (.*?): ", run.stdout, re.M))
    assert failed <= LATER, run.stdout


def test_structured_parse(server):
    run = subprocess.run(["node", ROOT / "tests" / "e2e" / "sdk_parse.mjs", server.url], cwd=FOLDER, capture_output=True,
                         text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "parse and stream agree" in run.stdout
