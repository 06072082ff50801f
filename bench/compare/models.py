"""The models that are compared, and where each side's files of them lie: made or fetched when they are missing."""
import json
import pathlib
import subprocess
import sys
from dataclasses import dataclass

from machine import PEERS, ROOT, BenchError

MODELS_DIR = ROOT / "models"
MADE_DIR = PEERS / "models"  # random weights, and folders for vLLM
FETCHED = {
    "smollm2-135m": "SmolLM2-135M-Instruct.Q4_1.gguf",
    "qwen2.5-coder-0.5b": "Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf",
    "qwen2.5-coder-1.5b": "Qwen2.5-Coder-1.5B-Instruct.Q4_K_M.gguf",
}
RANDOM_LIKE = {"135m": "smollm2-135m", "0.5b": "qwen2.5-coder-0.5b", "1b": "smollm2-135m"}
RANDOM = [f"random-{size}-{kind}" for size in RANDOM_LIKE for kind in ("bf16", "q8_0", "q4_0")]
AWQ = {f"{name}-awq": name for name in FETCHED}  # the same weights, quantized once more
NAMES = [*FETCHED, *RANDOM, *AWQ]
GROUPS = {"real": list(FETCHED), "random": RANDOM, "all": [*FETCHED, *RANDOM]}


def tools_python():
    python = PEERS / "tools" / "bin" / "python"
    if not python.exists():
        raise BenchError("no gguf package in .cache/peers/tools: run scripts/install_peers.sh tools")
    return python


@dataclass
class Model:
    name: str
    path: pathlib.Path  # a GGUF file, or a folder (AWQ)
    facts: dict         # of model_facts.py

    @property
    def weights(self):
        """How its matrices are multiplied: 'bf16' or 'int'."""
        return "bf16" if self.facts["main_type"] in ("BF16", "F16", "F32") else "int"

    def macs_per_token(self, context):
        """Multiply-adds of one decoded token with so many keys in the cache."""
        return self.facts["layers_macs"] + self.facts["head_macs"] + context * self.facts["attention_macs_per_key"]

    def prefill_macs(self, tokens):
        """Of a whole prompt: the output matrix for its last token only, each token's keys up to itself."""
        return (tokens * self.facts["layers_macs"] + self.facts["head_macs"] +
                tokens * (tokens + 1) // 2 * self.facts["attention_macs_per_key"])


def _make(path, doing, command):
    """Has `command`, given a path as its last argument, write a file or folder there; it gets its name when it is whole."""
    print(f"{path.name}: {doing}", flush=True)
    MADE_DIR.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(path.suffix + ".partial")
    done = subprocess.run([*command, partial], capture_output=True, text=True)
    if done.returncode != 0:
        raise BenchError(f"{path.name} cannot be made:\n{done.stderr[-2000:]}")
    partial.rename(path)


def _random_gguf(name):
    _, size, kind = name.split("-")
    path = MADE_DIR / f"{name}.gguf"
    if not path.exists():
        like = find(RANDOM_LIKE[size]).path
        _make(path, "writing random weights", [tools_python(), ROOT / "bench" / "compare" / "random_model.py", size, kind, like])
    return path


def _fetched_gguf(name):
    path = MODELS_DIR / FETCHED[name]
    if not path.exists():
        subprocess.run([sys.executable, ROOT / "scripts" / "fetch_models.py", name], check=True)
    return path


def _awq(name):
    """A folder in AWQ's format. Its facts are those of the GGUF file, less what the format changes."""
    base = find(AWQ[name])
    folder = MADE_DIR / f"{name}-hf"
    if not folder.exists():
        _make(folder, f"quantizing {base.name}",
              [PEERS / "vllm" / "bin" / "python", ROOT / "bench" / "compare" / "awq_folder.py", hf_folder(base)])
    group = json.loads((folder / "config.json").read_text())["quantization_config"]["group_size"]
    facts = base.facts
    bits = 4 + (16 + 4) / group  # a bfloat16 scale and a zero point for each group
    size = int(facts["layers_macs"] * bits / 8) + 2 * facts["head_macs"]
    return Model(name, folder, {**facts, "main_type": "AWQ", "weight_bytes": size})


def find(name):
    """A model by its name in NAMES, or by the path of a GGUF file."""
    if name in AWQ:
        return _awq(name)
    if name in FETCHED:
        path = _fetched_gguf(name)
    elif name in RANDOM:
        path = _random_gguf(name)
    elif pathlib.Path(name).is_file():
        path = pathlib.Path(name)
    else:
        raise BenchError(f"unknown model {name!r}: a GGUF file, or one of {', '.join(NAMES)}")
    facts = subprocess.run([tools_python(), ROOT / "bench" / "compare" / "model_facts.py", path], capture_output=True, text=True)
    if facts.returncode != 0:
        raise BenchError(f"{path}: {facts.stderr.strip().splitlines()[-1]}")
    return Model(path.stem if name not in NAMES else name, path.resolve(), json.loads(facts.stdout))


def hf_folder(model):
    """The model as a folder for vLLM: of bfloat16 weights, or as it is where it is a folder already."""
    if model.path.is_dir():
        return model.path
    name = model.name
    for kind in ("q8_0", "q4_0"):
        name = name.replace(f"-{kind}", "-bf16")  # the same numbers, before they were quantized
    folder = MADE_DIR / f"{name}-hf"
    if not folder.exists():
        source = model if name == model.name else find(name)
        _make(folder, f"converting {source.path.name} for vLLM",
              [PEERS / "vllm" / "bin" / "python", ROOT / "bench" / "compare" / "gguf_to_hf.py", source.path])
    return folder
