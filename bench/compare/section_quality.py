"""What quantized arithmetic costs: mean KL divergence of next-token distributions from those of the same file's weights
dequantized exactly and multiplied in float32.

The same tokens for all: windows of 512 cut from loads.text(), each computed from an empty cache, the distributions of
a window's second half. llama.cpp: llama-perplexity writes its log-probabilities (16 bits each, the 16 nats below the
likeliest token); Quire's logits, fast and float32, are put through the same rounding, so that both sides lose alike.
"""
import pathlib
import struct
import subprocess
import tempfile

import numpy as np

import engines
import loads
import servers
from machine import BenchError
from turns import Figure

WINDOW = 512
ROWS = WINDOW - 1 - WINDOW // 2  # of a window
REACH = 16.0                     # nats


def encoded(logits):
    """Log-probabilities as llama-perplexity keeps them: 16 bits between the likeliest token and REACH below it."""
    logits = logits.astype(np.float64)
    most = logits.max()
    least = max(logits.min(), most - REACH)
    total = most + np.log(np.exp(logits - most).sum())
    scale = (most - least) / 65535
    return np.maximum(np.rint((logits - least) / scale), 0) * scale + least - total


def read_llama(path):
    """(tokens [windows, WINDOW], vocabulary, memory map of uint16 rows) of a file of llama-perplexity."""
    with open(path, "rb") as f:
        if f.read(8) != b"_logits_":
            raise BenchError(f"{path} is not a file of llama-perplexity")
        window, vocab, windows = struct.unpack("<iii", f.read(12))
        tokens = np.frombuffer(f.read(4 * window * windows), np.int32).reshape(windows, window)
        at = f.tell()
    width = 2 * ((vocab + 1) // 2) + 4  # scale and least log-probability as two floats, then the vocabulary
    rows = np.memmap(path, np.uint16, "r", at, (windows * (window - 1 - window // 2), width))
    return tokens, vocab, rows


def llama_row(rows, i, vocab):
    scale, least = rows[i, :4].view(np.float32)
    return rows[i, 4:4 + vocab].astype(np.float64) * float(scale) + float(least)


def divergence(reference, other):
    """KL(reference || other) in nats; the reference's tokens at the bottom of its range count nothing."""
    known = reference > reference.min() + 1e-9
    return float((np.exp(reference[known]) * (reference[known] - other[known])).sum())


def llama_logits(run, folder, text):
    llama = engines.LlamaCpp(run.model, run.args.threads)
    out = folder / "llama.kld"
    engines.run_command([llama.folder / "llama-perplexity", "-m", run.model.path, "-f", text, "-c", WINDOW, "-b", WINDOW, "-t", run.args.threads,
                         "--chunks", run.args.windows, "--kl-divergence-base", out, *llama.server_flags()], llama.env)
    return out


def quire_logits(run, folder, tokens, vocab, name, *flags):
    ids, out = folder / "tokens.bin", folder / f"{name}.bin"
    ids.write_bytes(tokens.tobytes())
    engines.run_command([servers.quire_binary(), "bench-logits", "--model", run.model.path, "--threads", run.args.threads, "--tokens", ids,
                         "--window", WINDOW, "--out", out, *flags])
    return np.memmap(out, np.float32, "r").reshape(-1, vocab)


def beginnings(tokens, run):
    """Where a text begins with the begin token, llama-perplexity puts it in place of each window's first token."""
    tokens = tokens.copy()
    if tokens[0, 0] == run.model.facts["begin_token"]:
        tokens[:, 0] = tokens[0, 0]
    return tokens


def measure(run):
    if "llama.cpp" not in run.args.peers:
        run.missing["llama.cpp"] = "not asked for"
        return
    with tempfile.TemporaryDirectory(dir=run.scratch) as name:
        folder = pathlib.Path(name)
        text = folder / "text.txt"
        text.write_text(loads.text())
        try:
            tokens, vocab, theirs = read_llama(llama_logits(run, folder, text))
        except (BenchError, subprocess.TimeoutExpired) as e:
            run.missing["llama.cpp"] = str(e)
            return
        tokens = beginnings(tokens, run)
        exact = quire_logits(run, folder, tokens, vocab, "float32", "--dtype", "float32")
        ours = quire_logits(run, folder, tokens, vocab, "fast", *run.args.quire_flags.split())
        found, same = {"Quire": [], "llama.cpp": []}, {"Quire": 0, "llama.cpp": 0}
        for i in range(len(exact)):
            reference = encoded(exact[i])
            for side, row in (("Quire", encoded(ours[i])), ("llama.cpp", llama_row(theirs, i, vocab))):
                found[side].append(divergence(reference, row))
                same[side] += int(reference.argmax() == row.argmax())
    means = {side: [float(np.mean(values))] for side, values in found.items()}
    rows = len(found["Quire"])
    run.add(Figure("quality", run.model.name, "mean KL divergence from float32", "nats", means, higher_is_better=False, targets={"llama.cpp": 1 / 1.1},
                   note=f"{rows} distributions; medians {np.median(found['Quire']):.2e} and {np.median(found['llama.cpp']):.2e}"))
    run.add(Figure("quality", run.model.name, "same likeliest token", "%", {side: [100 * n / rows] for side, n in same.items()}))
