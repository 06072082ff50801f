#!/usr/bin/env python3
"""Writes the table of supported architectures into README.md and docs/models.md, from the registry.

    scripts/model_table.py           rewrite what stands between the markers
    scripts/model_table.py --check   fail where that would change a file
"""
import argparse
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- models: made by scripts/model_table.py -->", "<!-- end of models -->"


def architectures():
    """[(model_type, what people call the models)] of src/model/architectures.cpp."""
    text = (ROOT / "src/model/architectures.cpp").read_text(encoding="utf-8")
    rows = re.findall(r'\{"([a-z0-9_]+)",\s*(\w+),\s*"([^"]+)"\}', text)
    if not rows:
        sys.exit("src/model/architectures.cpp: no rows found")
    return [(name, models) for name, _, models in rows]


def gguf_names():
    """model_type -> names that a GGUF has for it, of src/weights/gguf_arch.cpp."""
    names = {}
    text = (ROOT / "src/weights/gguf_arch.cpp").read_text(encoding="utf-8")
    for gguf, model_type in re.findall(r'\{"([^"]+)",\s*"([a-z0-9_]+)"[,}]', text):
        names.setdefault(model_type, []).append(gguf)
    # Told from their relatives by a GGUF's metadata: the name is the relative's.
    for model_type, relative in {"mixtral": "llama", "olmo3": "olmo2", "deepseek_v3": "deepseek_v2",
                                 "granitemoeshared": "granitemoe", "mistral": "llama"}.items():
        for gguf in names.get(relative, []):
            if gguf not in names.setdefault(model_type, []):
                names[model_type].append(gguf)
    return names


def features():
    """model_type -> what its golden models exercise, each once, in the order of the folders."""
    found = {}
    for path in sorted((ROOT / "tests/golden").glob("*/golden.json")):
        golden = json.loads(path.read_text(encoding="utf-8"))
        seen = found.setdefault(golden["model_type"], [])
        seen.extend(f for f in golden["features"] if f not in seen)
    return found


def short_table():
    gguf = gguf_names()
    lines = ["| models | `model_type` | GGUF |", "| --- | --- | --- |"]
    lines += [f"| {models} | `{name}` | {', '.join(f'`{g}`' for g in gguf.get(name, [])) or '–'} |"
              for name, models in sorted(architectures(), key=lambda row: row[1].lower())]
    return lines


def long_table():
    gguf, golden = gguf_names(), features()
    lines = ["| `model_type` | GGUF | models | tested with |", "| --- | --- | --- | --- |"]
    lines += [f"| `{name}` | {', '.join(f'`{g}`' for g in gguf.get(name, [])) or '–'} | {models} | "
              f"{'; '.join(golden.get(name, ['–']))} |" for name, models in architectures()]
    return lines


def rewritten(path, table):
    text = path.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{path.relative_to(ROOT)}: no lines '{BEGIN}' and '{END}'")
    return text, before + BEGIN + "\n" + "\n".join(table) + "\n" + END + after


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = []
    for path, table in ((ROOT / "README.md", short_table()), (ROOT / "docs/models.md", long_table())):
        old, new = rewritten(path, table)
        if old == new:
            continue
        stale.append(str(path.relative_to(ROOT)))
        if not check:
            path.write_text(new, encoding="utf-8")
    if check and stale:
        sys.exit(f"{', '.join(stale)}: not what scripts/model_table.py writes; run it")
    print(f"model table: {len(architectures())} architectures" + (f", written to {', '.join(stale)}" if stale else ""))


if __name__ == "__main__":
    main()
