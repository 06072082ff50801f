"""The unmodified OpenAI JavaScript SDK; run by `make test-js`, which installs it."""
import os
import re
import subprocess

import pytest
from quire_process import ROOT

FOLDER = ROOT / "tests" / "conformance" / "js"
LATER = {"tool_choice required", "tool_choice named, streamed", "json_schema"}  # tools, structured output


@pytest.mark.skipif(not os.environ.get("QUIRE_TEST_JS"), reason="make test-js installs the SDK and runs this")
def test_javascript_sdk(server):
    run = subprocess.run(["node", "check.mjs", server.url], cwd=FOLDER, capture_output=True, text=True)
    print(run.stdout)
    assert re.search(r"^\d+ of \d+ checks passed$", run.stdout, re.M), run.stdout + run.stderr
    failed = set(re.findall(r"^FAIL  (.*?): ", run.stdout, re.M))
    assert failed <= LATER, run.stdout
