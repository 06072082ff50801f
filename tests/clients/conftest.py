"""Real clients against the built binary. `make test-clients` installs them into a virtual environment of their
own (.cache/clients/venv) and runs these; nothing is skipped when one of them is missing."""
import importlib.util
import pathlib
import sys

E2E = pathlib.Path(__file__).resolve().parent.parent / "e2e"
sys.path.insert(0, str(E2E))
spec = importlib.util.spec_from_file_location("quire_e2e_fixtures", E2E / "conftest.py")
fixtures = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fixtures)
binary, model, start, server = fixtures.binary, fixtures.model, fixtures.start, fixtures.server
