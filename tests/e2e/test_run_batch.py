"""`quire run-batch`: OpenAI's batch format, the server's answers."""
import json

import pytest
from quire_process import run_quire

SMALL = ["--max-model-len", "512"]


def line(custom_id, url="/v1/completions", **body):
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": url, "body": body})


REQUESTS = [
    line("one", prompt="Once upon a time", max_tokens=8, temperature=0),
    line("chat", "/v1/chat/completions", messages=[{"role": "user", "content": "Say hello."}], max_tokens=8,
         temperature=0),
    "",
    "this is no JSON",
    line("bad", prompt="x", top_p=7),
    line("nowhere", "/v1/files"),
    line("drawn", prompt="A list of fruit:", max_tokens=12, temperature=1.3),
    line("vector", "/v1/embeddings", input="Hello"),
    line("two", prompt=["a b", "c d"], max_tokens=4, temperature=0, n=1),
]


def run(binary, model, folder, lines, name="out.jsonl", *flags):
    (folder / "in.jsonl").write_text("\n".join(lines) + "\n")
    done = run_quire(binary, "run-batch", model, "-i", folder / "in.jsonl", "-o", folder / name, *SMALL, *flags)
    return done, (folder / name)


def replies(path):
    return [json.loads(text) for text in path.read_text().splitlines()]


def core(reply):
    """Without what is new in each run."""
    if reply["response"] is None:
        return reply["error"]
    body = {k: v for k, v in reply["response"]["body"].items() if k not in ("id", "created")}
    return reply["response"]["status_code"], body


@pytest.fixture(scope="module")
def first(binary, model, tmp_path_factory):
    done, path = run(binary, model, tmp_path_factory.mktemp("batch"), REQUESTS)
    assert done.returncode == 0, done.stderr
    return path


def test_answers_stand_in_order_and_bad_lines_are_errors(first):
    got = replies(first)
    assert [r["custom_id"] for r in got] == ["one", "chat", None, "bad", "nowhere", "drawn", "vector", "two"]
    status = [r["response"] and r["response"]["status_code"] for r in got]
    assert status == [200, 200, None, 400, 404, 200, 200, 200]
    assert got[2]["error"]["code"] == "invalid_line" and "line 3" in got[2]["error"]["message"]
    assert got[3]["response"]["body"]["error"]["param"] == "top_p"
    assert len(got[7]["response"]["body"]["choices"]) == 2


def test_answers_are_the_servers(first, server):
    got = replies(first)
    want = server.completion(prompt="Once upon a time", max_tokens=8)["choices"][0]["text"]
    assert got[0]["response"]["body"]["choices"][0]["text"] == want
    want = server.chat(max_tokens=8)["choices"][0]["message"]["content"]
    assert got[1]["response"]["body"]["choices"][0]["message"]["content"] == want


def test_a_cut_off_run_goes_on_and_gives_the_same(binary, model, first):
    whole = first.read_text()
    lines = whole.splitlines(keepends=True)
    first.with_name("cut.jsonl").write_text("".join(lines[:4]) + lines[4][:20])
    done, path = run(binary, model, first.parent, REQUESTS, "cut.jsonl")
    assert done.returncode == 0, done.stderr
    assert path.read_text().startswith("".join(lines[:4]))
    assert list(map(core, replies(path))) == list(map(core, replies(first)))
    done, path = run(binary, model, first.parent, REQUESTS, "cut.jsonl")  # nothing is left to do
    assert done.returncode == 0 and len(replies(path)) == 8


def test_order_does_not_depend_on_how_many_run(binary, model, first):
    done, path = run(binary, model, first.parent, REQUESTS, "single.jsonl", "--max-num-seqs", "1")
    assert done.returncode == 0, done.stderr
    assert list(map(core, replies(path))) == list(map(core, replies(first)))


def test_answers_to_another_input_are_not_touched(binary, model, first):
    done, path = run(binary, model, first.parent, [line("other", prompt="x")] * 20, first.name)
    assert done.returncode == 1 and "remove it" in done.stderr
    assert len(replies(path)) == 8


def test_missing_files_are_named(binary, model, tmp_path):
    done = run_quire(binary, "run-batch", model, "-i", tmp_path / "no.jsonl", "-o", tmp_path / "out.jsonl")
    assert done.returncode == 1 and "no.jsonl" in done.stderr
    assert run_quire(binary, "run-batch", model).returncode == 2
