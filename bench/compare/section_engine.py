"""Engine against engine: a prompt of 512 tokens, decoding in batches, decoding behind a long context."""
import engines
import models
from machine import BenchError, dot_peak
from turns import Figure, in_turns, values_of

PROMPT, CONTEXT, LONG_CONTEXT = 512, 256, 4096


def open_engines(run):
    """{name: engine} of the wanted ones; run.missing says why others are not there."""
    model, args = run.model, run.args

    def make_vllm():
        engines.find_vllm()
        return engines.Vllm(models.hf_folder(model), args.threads, args.vllm_compiled, args.vllm_bind)

    found = {"Quire": engines.Quire(model, args.threads, args.quire_flags.split())}
    for name, make in {"llama.cpp": lambda: engines.LlamaCpp(model, args.threads), "vLLM": make_vllm}.items():
        if name in args.peers:
            try:
                found[name] = make()
            except BenchError as e:
                run.missing[name] = str(e)
    for name, engine in found.items():
        run.versions.setdefault(name, engine.version())
        run.notes += getattr(engine, "notes", [])
    return found


NO_PEAK = "No peak of a dot instruction or of reading is known here: no fraction of it."


def part_of(rate, peak):
    """None without a peak."""
    return rate / peak if peak else None


class Fractions:
    """Of the machine's peaks: of the dot product for prompts and large batches, of the read rate for small ones. None where
    no peak is known."""

    def __init__(self, model, peaks):
        self.model, self.peaks = model, peaks

    def of_dot(self, side, speed, macs_per_token):
        weights = "bf16" if side == "vLLM" else self.model.weights
        return part_of(speed * macs_per_token / 1e9, dot_peak(self.peaks, weights))

    def of_read(self, side, speed, batch):
        """A step reads every weight once; those of vLLM's folder are 2 bytes each."""
        facts = self.model.facts
        size = 2 * (facts["layers_macs"] + facts["head_macs"]) if side == "vLLM" else facts["weight_bytes"]
        return part_of(speed / batch * size / 1e9, self.peaks.get("read_gb_s"))


def targets(model, what, batch=0, repacked=False):
    """What Figure takes as targets. repacked: llama.cpp has a repacked path for the model's weights on this machine (for
    Q4_1 only with AMX); where it has none, four times is asked for."""
    peak = 0.8 if model.weights == "bf16" else 0.6
    if what == "prefill" or batch >= 16:
        return {"targets": {"llama.cpp": 4.0 if model.facts["main_type"] == "Q4_1" and not repacked else 2.5}, "peak_instead": peak}
    if what == "long":
        return {"targets": {"llama.cpp": 1.5}}
    if batch == 8:
        return {"targets": {"llama.cpp": 2.0}}
    if batch == 1 and model.facts["weight_bytes"] < 0.4e9:
        return {"targets": {"llama.cpp": 1.3}}
    return {"targets": {"llama.cpp": 1.0}, "peak_too": 0.9} if batch == 1 else {}


def measure(run):
    model, args = run.model, run.args
    sides = open_engines(run)
    fractions = Fractions(model, run.peaks)
    settings = {name: side.settings for name, side in sides.items()}
    repacked = getattr(sides.get("llama.cpp"), "repacks", False)

    def add(what, name, speeds, key, fraction, batch=0):
        figure = Figure("engine", model.name, name, "tok/s", values_of(speeds, key), settings=settings, missing=dict(run.missing),
                        **targets(model, what, batch, repacked))
        found = {side: fraction(side, figure.median(side)) for side in figure.values}
        figure.peaks = {side: part for side, part in found.items() if part is not None}
        figure.note = NO_PEAK if found and not figure.peaks else ""
        run.add(figure)

    try:
        if "prefill" in args.figures:
            macs = model.prefill_macs(PROMPT) / PROMPT
            found = in_turns(sides, lambda _, side: {"prefill": side.prefill(PROMPT)}, args.rounds)
            add("prefill", f"prefill {PROMPT}", found, "prefill", lambda side, v: fractions.of_dot(side, v, macs))
        if "decode" in args.figures:
            macs = model.macs_per_token(CONTEXT)
            found = in_turns(sides, lambda _, side: side.decode(CONTEXT, args.decode_tokens, args.batches), args.rounds)
            for batch in args.batches:
                add("decode", f"decode, batch {batch}", found, batch,
                    lambda side, v, b=batch: fractions.of_read(side, v, b) if b < 16 else fractions.of_dot(side, v, macs), batch)
        if "long" in args.figures:
            found = in_turns(sides, lambda _, side: side.decode(LONG_CONTEXT, args.decode_tokens, [1]), args.rounds)
            add("long", f"decode behind {LONG_CONTEXT} tokens", found, 1, lambda side, v: fractions.of_read(side, v, 1))
    finally:
        for side in sides.values():
            if hasattr(side, "close"):
                side.close()
