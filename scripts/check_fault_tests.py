#!/usr/bin/env python3
"""Fails when docs/known-faults.md names a test that there is not."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def tests_there_are():
    names = set()
    for folder in ("src", "app", "tests"):
        for path in (ROOT / folder).rglob("*_test.cpp"):
            names |= {f"{suite}.{name}" for suite, name in re.findall(
                r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", path.read_text(), re.MULTILINE)}
    for path in (ROOT / "tests").rglob("test_*.py"):
        names |= set(re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE))
    return names


def main():
    named = re.findall(r"`(\w+\.\w+|test_\w+)`", "\n".join(
        line.split("|")[2] for line in (ROOT / "docs" / "known-faults.md").read_text().splitlines()
        if line.startswith("|")))
    missing = sorted(set(named) - tests_there_are())
    for name in missing:
        print(f"docs/known-faults.md names {name}, and there is no such test", file=sys.stderr)
    if missing or not named:
        sys.exit(1)
    print(f"known faults: {len(set(named))} tests are named, all are there")


if __name__ == "__main__":
    main()
