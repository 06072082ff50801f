#!/usr/bin/env python3
"""Answers made under a schema are valid: the official JSON-Schema test suite against `jsonschema`.

    scripts/json_schema_suite.py [--samples N] [--per-keyword N] [--draft draft2020-12] [--suite FOLDER]

Every schema of the suite is compiled. Of those that are accepted: random-logit answers must validate, and the suite's
invalid instances must not be taken. Each keyword that occurs in an accepted schema gets at least --per-keyword answers.
Without --suite the suite is taken from the source package of `jsonschema`. Fails on any answer that does not validate."""
import argparse
import collections
import decimal
import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile

import jsonschema

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOOL = ROOT / "build" / "tests" / "quire_grammar_samples"
VALIDATORS = {"draft4": jsonschema.Draft4Validator, "draft6": jsonschema.Draft6Validator,
              "draft7": jsonschema.Draft7Validator, "draft2019-09": jsonschema.Draft201909Validator,
              "draft2020-12": jsonschema.Draft202012Validator}
ANNOTATIONS = {"$schema", "$comment", "title", "description", "default", "examples"}


def fetch(folder):
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "jsonschema",
                    "-d", folder, f"jsonschema=={jsonschema.__version__}"], check=True)
    archive = next(pathlib.Path(folder).glob("jsonschema-*.tar.gz"))
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return next(pathlib.Path(folder).glob("jsonschema-*/json"))


def keywords(schema):
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key not in ANNOTATIONS:
                yield key
            for inner in value.values() if key in ("properties", "patternProperties", "$defs", "definitions") \
                    and isinstance(value, dict) else [value] if key not in ("const", "enum") else []:
                yield from keywords(inner)
    elif isinstance(schema, list):
        for item in schema:
            yield from keywords(item)


def number(text):
    """As a decimal: 1.3269 is a multiple of 0.0001, which binary fractions deny. But for exponents without measure."""
    return decimal.Decimal(text) if abs(int((text.lower().split("e") + ["0"])[1])) < 300 else float(text)


def ask(tool, lines):
    run = subprocess.run([tool], input="\n".join(json.dumps(line) for line in lines) + "\n", capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{tool} ended with {run.returncode}: {run.stderr[-2000:]}")
    return [json.loads(line) for line in run.stdout.split("\n") if line]  # a sample may hold other line ends


decimal.getcontext().prec = 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=40)
    parser.add_argument("--per-keyword", type=int, default=1000)
    parser.add_argument("--draft", default="draft2020-12", choices=VALIDATORS)
    parser.add_argument("--suite", type=pathlib.Path)
    parser.add_argument("--tool", type=pathlib.Path, default=TOOL)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        suite = args.suite or fetch(folder)
        groups = [(file.name, group) for file in sorted((suite / "tests" / args.draft).glob("*.json"))
                  for group in json.loads(file.read_text())]
    validator = VALIDATORS[args.draft]

    lines = [{"schema": group["schema"], "count": args.samples, "seed": i,
              "texts": [json.dumps(test["data"], separators=(",", ":"), ensure_ascii=False) for test in group["tests"]]}
             for i, (_, group) in enumerate(groups)]
    answers = ask(args.tool, lines)
    accepted = [i for i, answer in enumerate(answers) if "error" not in answer]
    made = collections.Counter()
    for i in accepted:
        for keyword in set(keywords(groups[i][1]["schema"])):
            made[keyword] += len(answers[i]["samples"])
    # More answers for keywords that the suite has few schemas of.
    again = {}
    for keyword, count in made.items():
        having = [i for i in accepted if keyword in set(keywords(groups[i][1]["schema"])) and answers[i]["samples"]]
        for i in having:
            again[i] = max(again.get(i, 0), -(-(args.per_keyword - count) // len(having)))
    more = [i for i, count in again.items() if count > 0]
    for i, answer in zip(more, ask(args.tool, [{**lines[i], "count": int(1.5 * again[i]) + 5, "seed": 10**6 + i, "texts": []} for i in more])):
        answers[i]["samples"] += answer["samples"]
        answers[i]["failed"] += answer["failed"]

    wrong, invalid_taken, valid_taken, valid, failed, cut, samples = [], [], 0, 0, [], 0, 0
    per_keyword = collections.Counter()
    for i in accepted:
        file, group = groups[i]
        checker = validator(json.loads(json.dumps(group["schema"]), parse_float=number))
        for text in answers[i]["samples"]:
            samples += 1
            try:
                error = next(checker.iter_errors(json.loads(text, parse_float=number)), None)
                reason = error and error.message
            except ValueError as exception:
                reason = f"not JSON: {exception}"
            if reason:
                wrong.append((file, group["description"], text[:200], reason[:200]))
        for keyword in set(keywords(group["schema"])):
            per_keyword[keyword] += len(answers[i]["samples"])
        for test, taken in zip(group["tests"], answers[i]["takes"]):
            if test["valid"]:
                valid, valid_taken = valid + 1, valid_taken + taken
            elif taken:
                invalid_taken.append((file, group["description"], json.dumps(test["data"])[:200]))
        failed += [(file, group["description"], error[:200]) for error in answers[i]["failed"]]
        cut += answers[i]["cut"]

    print(f"{args.draft}: {len(groups)} schemas, {len(accepted)} accepted, {len(groups) - len(accepted)} refused")
    print(f"{samples} answers validated, {len(wrong)} wrong, {cut} cut off, {len(failed)} matchers failed")
    print(f"instances of accepted schemas: {len(invalid_taken)} invalid ones taken, {valid_taken} of {valid} valid ones taken")
    print("answers by keyword: " + ", ".join(f"{k} {n}" for k, n in sorted(per_keyword.items())))
    for title, entries in (("WRONG", wrong), ("INVALID TAKEN", invalid_taken), ("FAILED", failed)):
        for entry in entries[:40]:
            print(title, *entry, sep=" | ")
    sys.exit(1 if wrong or invalid_taken or failed else 0)


if __name__ == "__main__":
    main()
