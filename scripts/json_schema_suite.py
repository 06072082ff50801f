#!/usr/bin/env python3
"""Answers made under a schema are valid: the official JSON-Schema test suite against `jsonschema`.

    scripts/json_schema_suite.py [--samples N] [--per-keyword N] [--draft DRAFT ...] [--suite FOLDER] [--jobs N]

Every schema of the suite is compiled, in each draft; those without a "$schema" as they are and with their draft's. Of
those that are accepted: random-logit answers must validate, formats included, and the suite's invalid instances must not
be taken. Each keyword and each format that occurs in an accepted schema of a draft gets at least --per-keyword answers.
Without --suite the suite is taken from the source package of `jsonschema`. Fails on any answer that does not validate."""
import argparse
import collections
import concurrent.futures
import decimal
import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import time

import jsonschema

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOOL = ROOT / "build" / "tests" / "quire_grammar_samples"
VALIDATORS = {"draft4": jsonschema.Draft4Validator, "draft6": jsonschema.Draft6Validator,
              "draft7": jsonschema.Draft7Validator, "draft2019-09": jsonschema.Draft201909Validator,
              "draft2020-12": jsonschema.Draft202012Validator}
ANNOTATIONS = {"$schema", "$comment", "title", "description", "default", "examples"}
SHOWN = 40


def fetch(folder):
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "jsonschema",
                    "-d", folder, f"jsonschema=={importlib.metadata.version('jsonschema')}"], check=True)
    archive = next(pathlib.Path(folder).glob("jsonschema-*.tar.gz"))
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return next(pathlib.Path(folder).glob("jsonschema-*/json"))


def groups_of(suite, draft):
    """(file, schema with its tests)"""
    folder = suite / "tests" / draft
    named = {"$schema": VALIDATORS[draft].META_SCHEMA["$schema"]}
    for file in sorted(folder.glob("*.json")) + sorted(folder.glob("optional/format/*.json")):
        for group in json.loads(file.read_text()):
            yield file.name, group
            if isinstance(group["schema"], dict) and "$schema" not in group["schema"]:
                yield file.name, {**group, "schema": {**named, **group["schema"]}}


def keywords(schema):
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key not in ANNOTATIONS:
                yield key
            if key == "format" and isinstance(value, str):
                yield f"format {value}"
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


def check(job):
    """One worker's share of a draft: the answers of the tool, and what is wrong with their samples."""
    draft, tool, schemas, lines = job
    decimal.getcontext().prec = 1000
    validator = VALIDATORS[draft]
    answers = ask(tool, lines)
    for schema, answer in zip(schemas, answers):
        checker = validator(json.loads(json.dumps(schema), parse_float=number), format_checker=validator.FORMAT_CHECKER)
        answer["wrong"] = []
        for text in answer.get("samples", []):
            try:
                error = next(checker.iter_errors(json.loads(text, parse_float=number)), None)
                reason = error and error.message
            except ValueError as exception:
                reason = f"not JSON: {exception}"
            if reason:
                answer["wrong"].append((text[:200], reason[:200]))
        answer["samples"] = len(answer.get("samples", []))
    return answers


class Draft:
    def __init__(self, name, suite, options, pool, workers):
        self.name, self.options, self.pool, self.workers = name, options, pool, workers
        self.groups = list(groups_of(suite, name))
        self.keywords = [set(keywords(group["schema"])) for _, group in self.groups]

    def ask(self, lines, numbers):
        """Answers in the order of lines; each worker takes every n-th."""
        schemas = [self.groups[i][1]["schema"] for i in numbers]
        jobs = [(self.name, self.options.tool, schemas[w::self.workers], lines[w::self.workers])
                for w in range(self.workers)]
        out = [None] * len(lines)
        for w, answers in enumerate(self.pool.map(check, jobs)):
            out[w::self.workers] = answers
        return out

    def run(self):
        begin = time.monotonic()
        lines = [{"schema": group["schema"], "count": self.options.samples, "seed": i,
                  "texts": [json.dumps(test["data"], separators=(",", ":"), ensure_ascii=False) for test in group["tests"]]}
                 for i, (_, group) in enumerate(self.groups)]
        self.answers = self.ask(lines, range(len(lines)))
        self.accepted = [i for i, answer in enumerate(self.answers) if "error" not in answer]
        again = {}
        for keyword, count in self.per_keyword().items():
            having = [i for i in self.accepted if keyword in self.keywords[i] and self.answers[i]["samples"]]
            for i in having:
                again[i] = max(again.get(i, 0), -(-(self.options.per_keyword - count) // len(having)))
        more = [i for i, count in again.items() if count > 0]
        wanted = [{**lines[i], "count": int(1.5 * again[i]) + 5, "seed": 10**6 + i, "texts": []} for i in more]
        for i, answer in zip(more, self.ask(wanted, more)):
            for key in ("samples", "failed", "wrong", "cut"):
                self.answers[i][key] += answer[key]
        good = self.report()
        print(f"  {time.monotonic() - begin:.0f} s", flush=True)
        return good

    def per_keyword(self):
        made = collections.Counter()
        for i in self.accepted:
            for keyword in self.keywords[i]:
                made[keyword] += self.answers[i]["samples"]
        return made

    def report(self):
        wrong, taken, failed, few, valid, valid_taken = [], [], [], [], 0, 0
        for i in self.accepted:
            file, group = self.groups[i]
            answer, place = self.answers[i], (file, group["description"])
            wrong += [(*place, *entry) for entry in answer["wrong"]]
            failed += [(*place, error[:200]) for error in answer["failed"]]
            for test, is_taken in zip(group["tests"], answer["takes"]):
                if test["valid"]:
                    valid, valid_taken = valid + 1, valid_taken + is_taken
                elif is_taken:
                    taken.append((*place, json.dumps(test["data"])[:200]))
        counts = self.per_keyword()
        few = [(keyword, count) for keyword, count in counts.items() if 0 < count < self.options.per_keyword]
        samples = sum(self.answers[i]["samples"] for i in self.accepted)
        cut = sum(self.answers[i]["cut"] for i in self.accepted)
        print(f"{self.name}: {len(self.groups)} schemas, {len(self.accepted)} accepted, "
              f"{len(self.groups) - len(self.accepted)} refused")
        print(f"  {samples} answers validated, {len(wrong)} wrong, {cut} cut off, {len(failed)} matchers failed")
        print(f"  instances of accepted schemas: {len(taken)} invalid ones taken, {valid_taken} of {valid} valid ones taken")
        print("  answers by keyword: " + ", ".join(f"{k} {n}" for k, n in sorted(counts.items())))
        for title, entries in (("WRONG", wrong), ("INVALID TAKEN", taken), ("FAILED", failed), ("TOO FEW", few)):
            for entry in entries[:SHOWN]:
                print("  " + title, *entry, sep=" | ")
        return not (wrong or taken or failed or few)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=20, help="answers per schema at least")
    parser.add_argument("--per-keyword", type=int, default=1000)
    parser.add_argument("--draft", nargs="+", default=list(VALIDATORS), choices=VALIDATORS)
    parser.add_argument("--suite", type=pathlib.Path)
    parser.add_argument("--tool", type=pathlib.Path, default=TOOL)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    workers = options.jobs
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ProcessPoolExecutor(workers) as pool:
        suite = options.suite or fetch(folder)
        good = [Draft(name, suite, options, pool, workers).run() for name in options.draft]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
