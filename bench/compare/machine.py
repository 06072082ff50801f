"""What a figure depends on beside the code: the processor, its peaks, and the versions of what was measured."""
import json
import pathlib
import platform
import re
import subprocess
import time

from cpus import THREADS

ROOT = pathlib.Path(__file__).resolve().parents[2]
PEERS = ROOT / ".cache" / "peers"
# Flags of the processor that decide which kernels run.
KERNEL_FLAGS = ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16", "asimddp", "i8mm", "bf16")

# Names of bench/dot_probes.cpp.
FLOAT_DOTS = ("fma", "fma_256", "neon_fmla")
BF16_DOTS = ("amx_bf16", "vdpbf16ps", "neon_bfmmla")
INT_DOTS = ("amx_int8", "vpdpbusd", "vpdpbusd_256", "vpmaddubsw", "vpmaddubsw_256", "neon_smmla", "neon_sdot")


class BenchError(Exception):
    """Something that the person at the terminal has to mend; said in one line."""


def cpu_info():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    fields = dict(re.findall(r"^(model name|flags|Features|cpu family|model)\s*:\s*(.*)$", text, re.M))
    flags = (fields.get("flags") or fields.get("Features") or "").split()
    name = fields.get("model name", platform.machine())
    return {"name": name, "family": fields.get("cpu family"), "model": fields.get("model"), "threads": THREADS,
            "flags": [f for f in KERNEL_FLAGS if f in flags]}


def slug(cpu):
    """A file name for results of this kind of processor."""
    words = re.sub(r"\(.*?\)|@.*|\b(CPU|Processor|\d+-Core)\b", " ", cpu["name"])
    kind = f" f{cpu['family']} m{cpu['model']}" if cpu["family"] else ""
    return re.sub(r"[^a-z0-9]+", "-", f"{words}{kind} {cpu['threads']}t".lower()).strip("-")


def commit():
    done = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty", "--abbrev=9"], capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def roofline(read_bytes, threads, probes=3):
    """Peaks by the project's own probes: 10^9 multiply-adds per second of one thread and of so many, read rate of those; the
    best of some probes, since what others do at that moment only lowers them. read_bytes: of the model's weights, which a
    last-level cache may hold or not."""
    probe = ROOT / "build" / "bench" / "matmul_bench"
    if not probe.exists():
        raise BenchError(f"{probe} is missing: run `make build`")
    command = [probe, "--peaks", "--threads", str(threads), "--read-mb", str(min(max(read_bytes >> 20, 64), 4096))]
    found = [json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(probes)]
    return {name: max(each[name] for each in found) for name in found[0]}


def dot_peak(peaks, weights):
    """The machine's peak for a kind of weights ('bf16', else integers), all threads: the best instruction it has; 0: no
    instruction of its processor was measured."""
    return max(peaks.get(f"{name}_all_gmacs", 0.0) for name in FLOAT_DOTS + (BF16_DOTS if weights == "bf16" else INT_DOTS))


def busy_share(seconds):
    """Share of all processors that is in use, over so many seconds."""
    def sample():
        ticks = [int(n) for n in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        return sum(ticks), ticks[3] + ticks[4]  # all, idle

    begin = sample()
    time.sleep(seconds)
    end = sample()
    return 1 - (end[1] - begin[1]) / max(1, end[0] - begin[0])


def wait_until_quiet(patience_s=60, share=0.1):
    """Waits while others use the processors; the share that they still use after so long (0: quiet)."""
    end = time.monotonic() + patience_s
    while (busy := busy_share(0.3)) > share:
        if time.monotonic() > end:
            return busy
    return 0.0
