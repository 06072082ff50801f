"""End-to-end tests: they start the built binary as a user would, on a free port of 127.0.0.1.

    .venv/bin/python -m pytest tests/e2e          (`make test-e2e` builds first)

QUIRE_BINARY and QUIRE_MODEL name another binary or default model. No test asserts a duration; the
limits in here only end a run that hangs.
"""
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from quire_process import MODEL, ROOT, Quire  # noqa: E402

BINARY = pathlib.Path(os.environ.get("QUIRE_BINARY", ROOT / "build" / "quire"))


@pytest.fixture(scope="session")
def binary():
    assert BINARY.exists(), f"{BINARY} is missing: run `make build`"
    return BINARY


@pytest.fixture(scope="session")
def model():
    assert MODEL.exists(), f"{MODEL} is missing: run `make model`"
    return MODEL


@pytest.fixture(scope="session")
def start(binary, tmp_path_factory):
    """start(model, *flags) gives a ready server; all are ended when the session ends."""
    servers = []

    def start_server(model, *flags, env=None):
        log = tmp_path_factory.mktemp("quire") / "server.log"
        server = Quire(binary, model, flags, log, env)
        servers.append(server)
        server.wait_until_ready()
        return server

    yield start_server
    for server in servers:
        server.kill()


@pytest.fixture(scope="session")
def server(start, model):
    """The default model, started once with small limits that suit the tests."""
    return start(model, "--max-model-len", "2048", "--served-model-name", "smollm2")


@pytest.fixture(scope="session")
def float32_server(start, model):
    """The arithmetic that is compared with transformers."""
    return start(model, "--dtype", "float32", "--max-model-len", "2048")
