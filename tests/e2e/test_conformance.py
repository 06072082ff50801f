"""The OpenAI API conformance suite against the default model, file by file."""
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest
from quire_process import ROOT

SUITE = ROOT / "tests" / "conformance"
LATER = pathlib.Path(__file__).parent / "conformance_later.txt"
FILES = ["models", "completions", "chat", "errors", "http", "structured", "tools"]


def read_later():
    lines = (line.split("#")[0].strip() for line in LATER.read_text().splitlines())
    return {line.split(None, 1)[0]: line.split(None, 1)[1].strip() for line in lines if line}


def test_the_list_names_tests_that_exist():
    for name in read_later():
        file, test = name.split("::")
        assert f"def {test}(" in (SUITE / file).read_text(), f"{LATER.name}: {name} does not exist"


@pytest.mark.parametrize("name", FILES)
def test_conformance(server, tmp_path, name):
    file = f"test_openai_{name}.py"
    report = tmp_path / "report.xml"
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", "--no-header", f"--junitxml={report}",
         "--base-url", server.url, str(SUITE / file)],
        capture_output=True, text=True, cwd=SUITE)
    assert report.exists(), run.stdout + run.stderr
    later = read_later()
    passed, expected, unexpected, skipped = 0, [], [], []
    for case in ElementTree.parse(report).iter("testcase"):
        test = case.get("name")
        if case.find("failure") is None and case.find("error") is None:
            if case.find("skipped") is None:
                passed += 1
            else:
                skipped.append(f"{test}: {case.find('skipped').get('message')}")
        elif f"{file}::{test.split('[')[0]}" in later:
            expected.append(test)
        else:
            unexpected.append(test)
    print(f"{file}: {passed} passed, {len(expected)} come later, {len(unexpected)} failed, skipped: {skipped or 'none'}")
    assert not unexpected, f"{len(unexpected)} failed: {unexpected}\n{run.stdout[-12000:]}"
    assert passed > 0, run.stdout + run.stderr
    server.wait_until_idle()
