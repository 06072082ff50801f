#!/usr/bin/env python3
"""Fails on a source file over 400 lines: split it. Tests and kernels are exempt."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMIT_LINES = 400
SUFFIXES = {".h", ".cpp", ".cc", ".cu", ".rs"}


def is_exempt(path):
    relative = path.relative_to(ROOT).as_posix()
    return "_test." in path.name or "/kernels/" in relative or "/target/" in relative


def main():
    files = [p for folder in ("src", "app", "crates") for p in sorted((ROOT / folder).rglob("*"))
             if p.suffix in SUFFIXES and not is_exempt(p)]
    sizes = {p: len(p.read_bytes().splitlines()) for p in files}
    long = {p: n for p, n in sizes.items() if n > LIMIT_LINES}
    for path, lines in sorted(long.items(), key=lambda item: -item[1]):
        print(f"{path.relative_to(ROOT)}: {lines} lines, over {LIMIT_LINES}: split it", file=sys.stderr)
    if long:
        sys.exit(1)
    print(f"file sizes: {len(files)} files, none over {LIMIT_LINES} lines")


if __name__ == "__main__":
    main()
