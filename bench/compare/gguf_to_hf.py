#!/usr/bin/env python3
"""Turns a GGUF file into a Hugging Face folder of bfloat16 weights, for vLLM, which is served no GGUF here.

    .cache/peers/vllm/bin/python bench/compare/gguf_to_hf.py MODEL.gguf FOLDER
"""
import json
import os
import pathlib
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
import torch  # noqa: E402
import transformers  # noqa: E402
from transformers.utils.quantization_config import GgufConfig  # noqa: E402


def main():
    source, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    tokenizer = transformers.AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        source.parent, gguf_file=source.name, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True)).to(torch.bfloat16)
    model.hf_quantizer = None  # else save_pretrained refuses, although nothing is quantized any more
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config.pop("quantization_config", None)
    path.write_text(json.dumps(config, indent=1))


if __name__ == "__main__":
    main()
