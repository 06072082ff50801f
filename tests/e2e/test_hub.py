"""Models by their name on the hub: fetched, kept, checked, shared with huggingface_hub's cache; and every way in
which it can go wrong is one clear line. The hub is a server of our own on 127.0.0.1."""
import fcntl
import json
import os
import pathlib
import pty
import re
import signal
import subprocess

import pytest
from hub_server import Hub, Proxy, Repo, commit_of, cut_after, damaged, git_sha1, hang, sha256, status, without_range
from quire_process import ROOT, free_port, run_quire, wait_for

FOLDER = ROOT / "tests" / "golden" / "llama"
TINY = ROOT / "tests" / "golden-gguf" / "llama.gguf"
NAMES = ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"]
BIG = bytes(range(256)) * 800  # 200 kB


class Place:
    """A hub, and a cache of its own."""

    def __init__(self, binary, folder, tls=None):
        self.binary, self.hub = binary, Hub(tls)
        self.cache = folder / "cache"
        self.env = {"HF_ENDPOINT": self.hub.url, "HF_HUB_CACHE": str(self.cache), "HF_HOME": str(folder / "home"), "HF_TOKEN": "",
                    "HF_HUB_OFFLINE": "", "HF_HUB_DOWNLOAD_TIMEOUT": "", "SSL_CERT_FILE": "", "REQUESTS_CA_BUNDLE": "", "CURL_CA_BUNDLE": "",
                    **{name: "" for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "no_proxy")}}

    def run(self, *args, **env):
        return run_quire(self.binary, *args, env={**self.env, **env})

    def pull(self, *args, **env):
        """A pull that works: the path it prints."""
        done = self.run("pull", *args, **env)
        assert done.returncode == 0, done.stderr
        return pathlib.Path(done.stdout.strip())

    def fails(self, *args, words=(), **env):
        done = self.run(*args, **env)
        last = [line for line in done.stderr.splitlines() if line.strip()][-1]
        assert done.returncode == 1, f"exit code {done.returncode}\n{done.stderr}"
        assert last.startswith("quire: error: ")
        for word in words:
            assert word in last, f"no {word!r} in: {last}"
        return last

    def repo_folder(self, name):
        return self.cache / ("models--" + name.replace("/", "--"))


@pytest.fixture
def place(binary, tmp_path):
    made = Place(binary, tmp_path)
    made.hub.repos["org/tiny"] = Repo({name: (FOLDER / name).read_bytes() for name in NAMES if (FOLDER / name).exists()} |
                                      {"README.md": b"hello", "pytorch_model.bin": b"pickle" * 5000, "onnx/model.onnx": b"x"})
    made.hub.repos["org/tiny-GGUF"] = Repo({"tiny-Q8_0.gguf": TINY.read_bytes(), "tiny-Q4_K_M.gguf": BIG,
                                            "split/tiny-F16-00001-of-00002.gguf": BIG + b"1",
                                            "split/tiny-F16-00002-of-00002.gguf": BIG + b"2", "mmproj-F16.gguf": b"x"}, "g")
    made.hub.repos["org/big"] = Repo({"big-Q4_K_M.gguf": os.urandom(300_000)}, "b")
    yield made
    made.hub.stop()


def hub_is_silent(place, before):
    return len(place.hub.requests) == before


# ---- what works

def test_pull_lays_out_the_cache_as_huggingface_hub_does(place):
    path = place.pull("org/tiny")
    commit = commit_of("x")
    folder = place.repo_folder("org/tiny")
    assert path == folder / "snapshots" / commit
    assert (folder / "refs" / "main").read_text() == commit
    repo = place.hub.repos["org/tiny"]
    wanted = [name for name in NAMES if name in repo.files]
    assert sorted(p.name for p in path.iterdir()) == sorted(wanted)  # no .bin, README or subfolder
    for name in wanted:
        blob = sha256(repo.files[name]) if repo.is_large(name) else git_sha1(repo.files[name])
        assert os.readlink(path / name) == f"../../blobs/{blob}"
        assert (path / name).read_bytes() == repo.files[name]
        assert (place.cache / ".locks" / folder.name / f"{blob}.lock").exists()
    assert not list((folder / "blobs").glob("*.incomplete"))


def test_nothing_is_fetched_twice(place):
    place.pull("org/tiny")
    before = len(place.hub.requests)
    place.pull("org/tiny")
    assert [path for _, _, path, _ in place.hub.requests[before:]] == ["/api/models/org/tiny/revision/main"]
    # A new commit with one changed file: only that one.
    repo = place.hub.repos["org/tiny"]
    repo.files["generation_config.json"] = b'{"temperature": 0.5}'
    repo.refs["main"] = commit_of("second")
    before = len(place.hub.requests)
    path = place.pull("org/tiny")
    assert path.name == commit_of("second")
    fetched = {p.rsplit("/", 1)[1] for _, _, p, _ in place.hub.requests[before:] if "/resolve/" in p}
    assert fetched == {"generation_config.json"}


def test_blobs_of_an_earlier_cache_are_taken(place):
    repo = place.hub.repos["org/big"]
    data = repo.files["big-Q4_K_M.gguf"]
    blobs = place.repo_folder("org/big") / "blobs"
    blobs.mkdir(parents=True)
    (blobs / sha256(data)).write_bytes(data)
    place.pull("org/big")
    assert not place.hub.seen("/resolve/")


def test_serve_by_name(start, place):
    server = start("org/tiny", env=place.env)
    assert server.model == "org/tiny"
    assert server.completion(prompt="hello", max_tokens=2)["choices"]
    server.kill()


def test_serve_gguf_by_quantization(start, place):
    server = start("org/tiny-GGUF:Q8_0", env=place.env)
    assert server.model == "org/tiny-GGUF:Q8_0"
    server.kill()


def test_dummy_weights_fetch_no_weights(start, place):
    server = start("org/tiny", "--load-format", "dummy", env=place.env)
    assert server.completion(prompt="hello", max_tokens=2)["choices"]
    server.kill()
    fetched = {path.rsplit("/", 1)[1] for _, _, path, _ in place.hub.requests if "/resolve/" in path}
    assert "config.json" in fetched and "tokenizer.json" in fetched and "model.safetensors" not in fetched
    # Offline these will do again, but for no model.
    place.hub.stop()
    done = place.run("inspect", "org/tiny", "--load-format", "dummy", HF_HUB_OFFLINE="1")
    assert done.returncode == 0, done.stderr
    place.fails("inspect", "org/tiny", words=["HF_HUB_OFFLINE"], HF_HUB_OFFLINE="1")


def test_no_weights_are_fetched_of_what_cannot_be_served(place):
    config = json.loads((FOLDER / "config.json").read_text()) | {"model_type": "llama9", "architectures": ["Llama9ForCausalLM"]}
    place.hub.repos["org/tiny"].files["config.json"] = json.dumps(config).encode()
    for command in ("inspect", "serve"):
        place.fails(command, "org/tiny", words=["Llama9ForCausalLM", "the nearest that is: llama"])
    assert not place.hub.seen("model.safetensors")
    overridden = place.run("inspect", "org/tiny", "--hf-overrides", '{"model_type": "llama"}')
    assert overridden.returncode == 0, overridden.stderr


def test_a_dummy_of_pickles_only(place):
    place.hub.repos["org/pickles"] = Repo({name: (FOLDER / name).read_bytes() for name in ("config.json", "tokenizer.json")} |
                                          {"pytorch_model.bin": b"pickle"})
    place.fails("pull", "org/pickles", words=["pickle"])
    assert place.run("inspect", "org/pickles", "--load-format", "dummy").returncode == 0


def test_tokenizer_by_name(start, place):
    place.hub.repos["org/words"] = Repo({name: (FOLDER / name).read_bytes() for name in NAMES if (FOLDER / name).exists()}, "w")
    server = start(str(TINY), "--tokenizer", "org/words", env=place.env)
    assert server.completion(prompt="hello", max_tokens=2)["choices"]
    server.kill()
    fetched = {path.rsplit("/", 1)[1] for _, _, path, _ in place.hub.requests if "/resolve/" in path}
    assert fetched == {"tokenizer.json", "tokenizer_config.json"}


def test_a_name_without_an_organisation(place):
    place.hub.repos["tiny2"] = place.hub.repos["org/tiny"]
    path = place.pull("tiny2")
    assert path.parts[-3:-1] == ("models--tiny2", "snapshots")
    assert "tiny2" in place.run("list").stdout
    assert place.run("rm", "tiny2").returncode == 0 and "tiny2" not in place.run("list").stdout
    place.fails("serve", "tiny3", words=["tiny3", "no file or folder"])


@pytest.mark.parametrize("quant", ["Q4_K_M", "q4_k_m", "tiny-Q4_K_M.gguf", None])
def test_gguf_by_quantization(place, quant):
    path = place.pull("org/tiny-GGUF" + (f":{quant}" if quant else ""))
    assert path.name == "tiny-Q4_K_M.gguf" and path.read_bytes() == BIG
    assert sorted(p.name for p in path.parent.iterdir()) == ["tiny-Q4_K_M.gguf"]


def test_all_splits_of_a_gguf(place):
    path = place.pull("org/tiny-GGUF:F16")
    assert path.name == "tiny-F16-00001-of-00002.gguf"
    assert os.readlink(path).startswith("../../../blobs/")
    assert (path.parent / "tiny-F16-00002-of-00002.gguf").read_bytes() == BIG + b"2"


def test_sharded_safetensors_by_their_index(place):
    index = b'{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}'
    files = {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors.index.json": index,
             "model-00001-of-00002.safetensors": BIG, "model-00002-of-00002.safetensors": BIG + b"2", "consolidated.safetensors": BIG * 2}
    place.hub.repos["org/shards"] = Repo(files, "s")
    path = place.pull("org/shards")
    assert not (path / "consolidated.safetensors").exists()
    assert (path / "model-00002-of-00002.safetensors").read_bytes() == BIG + b"2"


def test_revision_branch_and_commit(place):
    repo = place.hub.repos["org/tiny"]
    repo.refs["refs/pr/1"] = commit_of("pr")
    assert place.pull("org/tiny", "--revision", "refs/pr/1").name == commit_of("pr")
    assert (place.repo_folder("org/tiny") / "refs" / "refs" / "pr" / "1").read_text() == commit_of("pr")
    before = len(place.hub.requests)
    assert place.pull("org/tiny", "--revision", commit_of("pr")).name == commit_of("pr")
    assert hub_is_silent(place, before)  # a commit never moves


def test_local_path_never_asks_the_hub(place):
    assert place.run("inspect", TINY).returncode == 0
    assert not place.hub.requests


def test_listing_without_sizes_and_hashes(place):
    place.hub.repos["org/tiny"].is_hidden_blobs = True
    assert (place.pull("org/tiny") / "model.safetensors").read_bytes() == (FOLDER / "model.safetensors").read_bytes()
    assert any(method == "HEAD" for method, _, _ in place.hub.seen("model.safetensors"))


def test_download_dir_and_hf_home(place, tmp_path):
    assert str(place.pull("org/big", "--download-dir", tmp_path / "own")).startswith(str(tmp_path / "own" / "models--org--big"))
    assert str(place.pull("org/big", HF_HUB_CACHE="")).startswith(str(tmp_path / "home" / "hub"))


def test_token_from_flag_variable_and_file(place, tmp_path):
    repo = place.hub.repos["org/big"]
    repo.gated = True
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "token").write_text(Hub.TOKEN + "\n")
    place.pull("org/big")
    assert all("Authorization" not in h for _, _, h in place.hub.seen("/store/"))
    (tmp_path / "home" / "token").unlink()
    place.pull("org/big", "--download-dir", tmp_path / "2", HF_TOKEN=Hub.TOKEN)
    place.pull("org/big", "--download-dir", tmp_path / "3", "--hf-token", Hub.TOKEN)


def test_token_flag_without_a_value_means_the_stored_one(place):
    place.hub.repos["org/big"].gated = True
    place.pull("org/big", "--hf-token", HF_TOKEN=Hub.TOKEN)


@pytest.mark.parametrize("command", ["serve", "pull"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_a_download_and_keeps_its_part(place, command, number):
    place.hub.answer_s = 0.2
    # A shell's background job, which these tests may run in, hands down that it ignores SIGINT.
    process = subprocess.Popen([str(place.binary), command, "org/big"], env={**os.environ, **place.env}, stderr=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))
    blobs = place.repo_folder("org/big") / "blobs"
    wait_for(lambda: any(p.stat().st_size for p in blobs.glob("*.incomplete")), "some of the download")
    process.send_signal(number)
    assert process.wait(60) == -number
    assert any(p.stat().st_size for p in blobs.glob("*.incomplete"))


def test_two_processes_fetch_once(place):
    place.hub.answer_s = 0.1
    command = [str(place.binary), "pull", "org/big"]
    both = [subprocess.Popen(command, env={**os.environ, **place.env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    assert [p.wait(60) for p in both] == [0, 0]
    assert len([1 for method, _, _ in place.hub.seen("/store/") if method == "GET"]) == 1


def test_waits_for_the_lock_of_huggingface_hub(place):
    blob = sha256(place.hub.repos["org/big"].files["big-Q4_K_M.gguf"])
    lock = place.cache / ".locks" / "models--org--big" / f"{blob}.lock"
    lock.parent.mkdir(parents=True)
    with open(lock, "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        process = subprocess.Popen([str(place.binary), "pull", "org/big"], env={**os.environ, **place.env}, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        for line in process.stderr:
            if "another process is fetching" in line:
                break
        assert not place.hub.seen("/store/")
    assert process.wait(60) == 0, process.communicate()


def test_large_file_is_fetched_in_ranges_and_resumed(place):
    data = os.urandom(1 << 20) * 210  # 210 MiB: four ranges
    place.hub.repos["org/large"] = Repo({"large-Q4_K_M.gguf": data}, "l")
    place.hub.faults["/store/org/large"] = [cut_after(10 << 20)] * 4
    path = place.pull("org/large")
    assert path.read_bytes() == data
    ranges = place.hub.bytes_fetched("/store/org/large")
    starts = sorted(int(re.match(r"bytes=(\d+)-", r)[1]) for r in ranges)
    assert len(ranges) == 8 and starts[0] == 0 and starts[1] == 10 << 20  # each went on where it was cut
    assert not list((place.repo_folder("org/large") / "blobs").glob("*.*"))


def test_killed_download_is_resumed(place):
    data = os.urandom(1 << 20) * 200
    place.hub.repos["org/large"] = Repo({"large-Q4_K_M.gguf": data}, "l")
    place.hub.answer_s = 0.002
    process = subprocess.Popen([str(place.binary), "pull", "org/large"], env={**os.environ, **place.env}, stderr=subprocess.DEVNULL)
    blobs = place.repo_folder("org/large") / "blobs"
    record = blobs / f"{sha256(data)}.ranges"

    def has_some():
        return record.exists() and sum(int(n) for n in record.read_text().split()[2:]) >= 40 << 20
    wait_for(has_some, "some of the download")
    process.kill()
    process.wait()
    there = sum(int(n) for n in record.read_text().split()[2:])
    place.hub.answer_s = 0
    before = len(place.hub.requests)
    assert place.pull("org/large").read_bytes() == data
    asked = 0
    for _, _, path, headers in place.hub.requests[before:]:
        if path.startswith("/store/"):
            first, last = map(int, re.match(r"bytes=(\d+)-(\d+)", headers["Range"]).groups())
            asked += last - first + 1
    assert asked == len(data) - there


def test_progress_bar_on_a_terminal(place):
    place.hub.repos["org/large"] = Repo({"large-Q4_K_M.gguf": os.urandom(6 << 20)}, "l")
    place.hub.answer_s = 0.01
    ours, theirs = pty.openpty()
    process = subprocess.Popen([str(place.binary), "pull", "org/large"], env={**os.environ, **place.env}, stderr=theirs,
                               stdout=subprocess.DEVNULL)
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 4096):
            shown += piece
    except OSError:  # the other end was closed
        pass
    os.close(ours)
    assert process.wait(60) == 0
    assert re.search(rb"\rorg/large \[#+-+\] +\d+ %  [\d.]+ MB of 6.29 MB  [\d.]+ [kM]B/s  \d:\d\d left", shown), shown


def test_progress_lines_without_a_terminal(place):
    place.hub.repos["org/large"] = Repo({"large-Q4_K_M.gguf": os.urandom(6 << 20)}, "l")
    place.hub.answer_s = 0.01
    done = place.run("pull", "org/large")
    assert re.search(r"org/large: \d+ % of 6.29 MB, .*/s", done.stderr) and "\r" not in done.stderr
    assert re.search(r"fetched 6.29 MB in [\d.]+ s", done.stderr)


# ---- what goes wrong

@pytest.mark.parametrize("fault", [status(500), status(503), status(429, Retry_After="1"), cut_after(0), cut_after(1000)])
@pytest.mark.parametrize("at", ["/api/models/", "/resolve/", "/store/"])
def test_temporary_fault_is_tried_again(place, fault, at):
    place.hub.faults[at] = [fault]
    path = place.pull("org/big")
    assert path.read_bytes() == place.hub.repos["org/big"].files["big-Q4_K_M.gguf"]


def test_retry_after_is_obeyed(place):
    place.hub.faults["/store/"] = [status(429, Retry_After="2")]
    done = place.run("pull", "org/big")
    assert done.returncode == 0 and "again in 2.0 s" in done.stderr and "429" in done.stderr


def test_cut_connection_goes_on_where_it_was(place):
    place.hub.faults["/store/"] = [cut_after(100_000), cut_after(50_000)]
    place.pull("org/big")
    assert place.hub.bytes_fetched("org/big") == [None, "bytes=100000-299999", "bytes=150000-299999"]


def test_server_without_ranges(place):
    place.hub.faults["/store/"] = [cut_after(100_000), without_range]
    assert place.pull("org/big").read_bytes() == place.hub.repos["org/big"].files["big-Q4_K_M.gguf"]


def test_silent_server(place):
    place.hub.faults["/store/"] = [hang]
    place.pull("org/big", HF_HUB_DOWNLOAD_TIMEOUT="1")


def test_fault_that_stays(place):
    place.hub.faults["/store/"] = [cut_after(100_000)] + [status(503)] * 100
    place.fails("pull", "org/big", words=["org/big", "big-Q4_K_M.gguf", "503", place.hub.url])
    place.hub.faults.clear()
    before = len(place.hub.requests)
    place.pull("org/big")  # what was there is gone on with
    assert [h["Range"] for _, _, p, h in place.hub.requests[before:] if p.startswith("/store/")] == ["bytes=100000-299999"]


def test_wrong_hash(place):
    place.hub.faults["/store/"] = [damaged]
    place.fails("pull", "org/big", words=["big-Q4_K_M.gguf", "damaged", "SHA-256", "removed"])
    folder = place.repo_folder("org/big")
    assert list((folder / "blobs").iterdir()) == [] and not (folder / "snapshots").exists()
    place.pull("org/big")


def test_wrong_hash_of_a_small_file(place):
    place.hub.faults["/api/resolve-cache/models/org/tiny/resolve/" + commit_of("x") + "/config.json"] = [damaged]
    place.fails("pull", "org/tiny", words=["config.json", "damaged", "SHA-1"])


def test_wrong_size(place):
    place.hub.faults["/store/"] = [lambda handler: handler.reply(200, b"short")]
    place.fails("pull", "org/big", words=["big-Q4_K_M.gguf", "5 bytes", "300000"])


def test_gated(place):
    place.hub.repos["org/tiny"].gated = True
    page = f"{place.hub.url}/org/tiny"
    place.fails("pull", "org/tiny", words=["org/tiny", "401", "accept the licence", page, "HF_TOKEN"])
    place.fails("pull", "org/tiny", words=["403", "accept the licence", page], HF_TOKEN="hf_another")
    place.fails("serve", "org/tiny", words=["accept the licence", page])
    assert "hf_another" not in place.run("pull", "org/tiny", HF_TOKEN="hf_another").stderr


def test_private_or_missing_repository(place):
    place.hub.repos["org/tiny"].private = True
    place.fails("pull", "org/tiny", words=["org/tiny", "no such model", "HF_TOKEN"])
    place.fails("pull", "org/none", words=["org/none", "no such model", "HF_TOKEN"])
    place.fails("pull", "org/none", words=["org/none", "404", "no such model"], HF_TOKEN=Hub.TOKEN)
    place.pull("org/tiny", HF_TOKEN=Hub.TOKEN)


def test_missing_revision_file_and_quantization(place):
    place.fails("pull", "org/tiny", "--revision", "nope", words=["org/tiny", "nope", "revision"])
    place.fails("pull", "org/tiny-GGUF:Q2_K", words=["Q2_K", "Q4_K_M", "Q8_0", "F16"])
    place.fails("pull", "org/tiny:Q4_K_M", words=["org/tiny", "no GGUF"])
    place.hub.faults["/resolve/" + commit_of("x") + "/config.json"] = [status(404)]
    place.fails("pull", "org/tiny", words=["config.json", "no such file"])


def test_pickles_are_refused(place):
    place.hub.repos["org/pickle"] = Repo({"config.json": b"{}", "tokenizer.json": b"{}", "pytorch_model.bin": BIG}, "p")
    place.fails("pull", "org/pickle", words=["pickle", "pytorch_model.bin", "run code", "safetensors"])
    assert not place.hub.seen("/resolve/")


def test_no_weights(place):
    place.hub.repos["org/empty"] = Repo({"README.md": b"x"}, "e")
    place.fails("pull", "org/empty", words=["org/empty", "no weights"])


@pytest.mark.parametrize("name", ["../../evil.gguf", "/etc/evil.gguf", "a/../../evil.gguf", "a//evil.gguf", "a\\..\\evil.gguf", "./evil.gguf"])
def test_file_names_that_lead_out_are_refused(place, name):
    place.hub.repos["org/evil"] = Repo({"m-Q4_K_M.gguf": BIG, name: BIG}, "v")
    place.fails("pull", "org/evil", words=["org/evil", "refused"])
    assert not list(place.cache.rglob("*.gguf"))


@pytest.mark.parametrize("name", ["../evil", "org/..", "a/b/c", "org/na me", "org/name:", "-org/name"])
def test_names_that_are_none(place, name):
    place.run("pull", "--", name)
    assert not place.hub.requests


def test_evil_commit_and_etag(place):
    place.hub.repos["org/evil"] = Repo({"m-Q4_K_M.gguf": BIG}, "v")
    place.hub.repos["org/evil"].refs["main"] = "../../../evil"
    place.fails("pull", "org/evil", words=["no commit"])
    place.hub.repos["org/evil"].refs["main"] = commit_of("v")
    place.hub.repos["org/evil"].is_hidden_blobs = True
    place.hub.faults["/resolve/"] = [lambda h: h.reply(200, b"", {"ETag": '"../../evil"'})]
    place.fails("pull", "org/evil", words=["ETag"])


def test_offline(place):
    place.fails("pull", "org/big", words=["HF_HUB_OFFLINE", "org/big", str(place.cache)], HF_HUB_OFFLINE="1")
    path = place.pull("org/big")
    before = len(place.hub.requests)
    assert place.pull("org/big", HF_HUB_OFFLINE="1") == path
    assert hub_is_silent(place, before)


def test_part_of_a_model_is_not_taken_offline(place):
    path = place.pull("org/tiny")
    (path / "model.safetensors").unlink()
    place.fails("pull", "org/tiny", words=["HF_HUB_OFFLINE"], HF_HUB_OFFLINE="1")


@pytest.mark.parametrize("kind", ["refused", "503"])
def test_unreachable_hub_falls_back_to_the_cache(place, kind):
    path = place.pull("org/tiny")
    if kind == "503":
        place.hub.faults["/api/"] = [status(503)] * 100
    env = {"HF_ENDPOINT": f"http://127.0.0.1:{free_port()}"} if kind == "refused" else {}
    done = place.run("pull", "org/tiny", **env)
    assert done.returncode == 0 and done.stdout.strip() == str(path)
    assert "warning" in done.stderr and "taking what the cache has" in done.stderr


def test_unreachable_hub_without_a_cache(place):
    endpoint = f"http://127.0.0.1:{free_port()}"
    place.fails("pull", "org/tiny", words=["org/tiny", endpoint, "connect"], HF_ENDPOINT=endpoint)


def test_bad_endpoint(place):
    place.fails("pull", "org/tiny", words=["HF_ENDPOINT"], HF_ENDPOINT="ftp://x")


def test_full_disk(place):
    blobs = place.repo_folder("org/big") / "blobs"
    blobs.mkdir(parents=True)
    blob = sha256(place.hub.repos["org/big"].files["big-Q4_K_M.gguf"])
    (blobs / f"{blob}.incomplete").symlink_to("/dev/full")
    place.fails("pull", "org/big", words=["big-Q4_K_M.gguf", "disk is full", "300 kB", "--download-dir"])
    assert not (place.repo_folder("org/big") / "snapshots").exists()


def test_file_larger_than_the_disk_is_refused_at_once(place):
    class Huge(Repo):
        def sibling(self, path):
            return {"rfilename": path, "size": 10**17, "lfs": {"sha256": "ab" * 32, "size": 10**17}}
    place.hub.repos["org/huge"] = Huge({"huge-Q4_K_M.gguf": b""}, "h")
    place.fails("pull", "org/huge", words=["disk is full", "100 PB"])
    assert not place.hub.seen("/resolve/")


def test_unwritable_cache(place, tmp_path):
    (tmp_path / "file").write_text("")
    place.fails("pull", "org/big", "--download-dir", tmp_path / "file" / "cache", words=["not writable", "--download-dir"])
    place.fails("pull", "org/big", "--download-dir", "/proc/nothing", words=["not writable", "/proc/nothing"])


# ---- TLS

@pytest.fixture
def tls_place(binary, tmp_path):
    """A hub behind TLS, with a certificate for 127.0.0.1 of an authority that nobody knows."""
    def make(name):
        key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key,
                        "-out", certificate, "-days", "2", "-subj", "/CN=test", "-addext", f"subjectAltName={name}"], check=True,
                       capture_output=True)
        made = Place(binary, tmp_path, (certificate, key))
        made.certificate = str(certificate)
        made.hub.repos["org/big"] = Repo({"big-Q4_K_M.gguf": os.urandom(300_000)}, "b")
        places.append(made)
        return made
    places = []
    yield make
    for made in places:
        made.hub.stop()


def test_tls(tls_place):
    place = tls_place("IP:127.0.0.1")
    place.hub.faults["/store/"] = [cut_after(100_000)]
    path = place.pull("org/big", SSL_CERT_FILE=place.certificate)
    assert path.read_bytes() == place.hub.repos["org/big"].files["big-Q4_K_M.gguf"]


def test_untrusted_certificate(tls_place):
    place = tls_place("IP:127.0.0.1")
    place.fails("pull", "org/big", words=["certificate", "127.0.0.1", "not trusted", "SSL_CERT_FILE"])


def test_certificate_of_another_host(tls_place):
    place = tls_place("DNS:hub.example")
    place.fails("pull", "org/big", words=["certificate", "127.0.0.1"], SSL_CERT_FILE=place.certificate)
    assert not place.hub.requests


def test_redirect_away_from_tls_is_refused(tls_place):
    place = tls_place("IP:127.0.0.1")
    place.hub.faults["/resolve/"] = [lambda h: h.reply(302, b"", {"Location": "http://127.0.0.1:9/x"})]
    place.fails("pull", "org/big", words=["without TLS"], SSL_CERT_FILE=place.certificate)


# ---- a proxy

def test_proxy_for_http(place):
    proxy = Proxy()
    data = place.hub.repos["org/big"].files["big-Q4_K_M.gguf"]
    assert place.pull("org/big", HTTP_PROXY=proxy.url).read_bytes() == data
    assert proxy.asked and all(line.startswith(("GET http://127.0.0.1", "HEAD http://127.0.0.1")) for line in proxy.asked)
    count = len(proxy.asked)
    place.pull("org/tiny", HTTP_PROXY=proxy.url, NO_PROXY="127.0.0.1")
    assert len(proxy.asked) == count
    proxy.stop()


def test_proxy_for_https(tls_place):
    place, proxy = tls_place("IP:127.0.0.1"), Proxy()
    data = place.hub.repos["org/big"].files["big-Q4_K_M.gguf"]
    assert place.pull("org/big", SSL_CERT_FILE=place.certificate, HTTPS_PROXY=proxy.url).read_bytes() == data
    assert proxy.asked and all(line.startswith("CONNECT 127.0.0.1:") for line in proxy.asked)
    proxy.stop()


def test_proxy_that_refuses(tls_place):
    place, proxy = tls_place("IP:127.0.0.1"), Proxy(refuses=True)
    place.fails("pull", "org/big", words=["org/big", "proxy", "407"], SSL_CERT_FILE=place.certificate, HTTPS_PROXY=proxy.url)
    place.fails("pull", "org/big", words=["HTTPS_PROXY"], SSL_CERT_FILE=place.certificate, HTTPS_PROXY="socks5://x:1")
    proxy.stop()


# ---- list and rm

def test_list(place):
    assert "no models" in place.run("list").stderr
    place.pull("org/tiny")
    place.pull("org/tiny-GGUF:Q8_0")
    place.pull("org/tiny-GGUF:F16")
    lines = place.run("list").stdout.splitlines()
    assert lines[0].split() == ["MODEL", "REVISION", "WEIGHTS", "SIZE", "LAST", "USE"]
    assert re.match(rf"org/tiny +main \({commit_of('x')[:12]}\) +safetensors +[\d.]+ [kM]B +20\d\d-\d\d-\d\d \d\d:\d\d$", lines[1])
    assert re.match(r"org/tiny-GGUF +main \(\w+\) +F16,Q8_0 ", lines[2])


def test_list_tells_unfinished_downloads(place):
    place.hub.faults["/store/"] = [cut_after(100_000)] + [status(404)]
    place.fails("pull", "org/big")
    assert "100 kB unfinished" in place.run("list").stdout


def test_rm(place):
    place.pull("org/tiny")
    place.pull("org/big")
    done = place.run("rm", "org/big")
    assert done.returncode == 0 and "300 kB freed" in done.stdout
    assert not place.repo_folder("org/big").exists() and not (place.cache / ".locks" / "models--org--big").exists()
    assert place.repo_folder("org/tiny").exists()
    place.fails("rm", "org/big", words=["org/big", "not in the cache"])


def test_rm_of_a_quantization(place):
    place.pull("org/tiny-GGUF:Q4_K_M")
    kept = place.pull("org/tiny-GGUF:F16")
    assert f"({len(BIG)} bytes)" in place.run("rm", "org/tiny-GGUF:Q4_K_M").stdout
    assert kept.read_bytes() == BIG + b"1"
    assert len(list((place.repo_folder("org/tiny-GGUF") / "blobs").iterdir())) == 2
    place.fails("rm", "org/tiny-GGUF:Q4_K_M", words=["Q4_K_M", "not in the cache"])


def test_rm_waits_for_nobody(place):
    place.pull("org/big")
    lock = next((place.cache / ".locks").rglob("*.lock"))
    with open(lock, "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        place.fails("rm", "org/big", words=["org/big", "another process"])
    assert place.run("rm", "org/big").returncode == 0
