"""The page of request fields is what the binary's tables say."""
import subprocess
import sys

from quire_process import ROOT


def test_the_page_follows_the_tables(binary):
    done = subprocess.run([sys.executable, ROOT / "scripts" / "api_table.py", "--check", binary], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
