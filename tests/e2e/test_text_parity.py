"""Token ids and rendered chats against what tokenizers and transformers gave for the same (tests/text-parity)."""
import json
import subprocess
import zlib

import pytest
from quire_process import PATIENCE_S, ROOT

TOOL = ROOT / "build" / "tests" / "quire_tokenize_lines"
PARITY = ROOT / "tests" / "text-parity"
WHOLE_ALPHABET = ["golden", "golden_gguf"]  # SmolLM2's vocabulary lacks some control characters
NAMES = [*WHOLE_ALPHABET, "smollm2_gguf"]


def read(name):
    return json.loads((PARITY / f"{name}.json").read_text())


def ask(model, lines):
    assert TOOL.exists(), f"{TOOL} is missing: run `make build`"
    done = subprocess.run([TOOL, ROOT / model], input="".join(json.dumps(line) + "\n" for line in lines), text=True,
                          stdout=subprocess.PIPE, timeout=PATIENCE_S, check=True)
    return [json.loads(line) for line in done.stdout.split("\n") if line]


@pytest.mark.parametrize("name", NAMES)
def test_token_ids(name):
    expected, strings = read(name), read("strings")
    answers = ask(expected["model"], [{"text": text} for text in strings])
    found = [f"{zlib.crc32(','.join(map(str, answer['ids'])).encode()):08x}" for answer in answers]
    wrong = [(text, answer["ids"]) for text, answer, ours, theirs in
             zip(strings, answers, found, expected["ids_crc32"].split(), strict=True) if ours != theirs]
    assert not wrong, f"{len(wrong)} of {len(strings)} strings differ; the first: {wrong[:3]}"


@pytest.mark.parametrize("name", WHOLE_ALPHABET)
def test_decoding_gives_the_text_back(name):
    expected, strings = read(name), read("strings")
    encoded = ask(expected["model"], [{"text": text} for text in strings])
    decoded = ask(expected["model"], encoded)
    assert [answer["text"] for answer in decoded] == strings


@pytest.mark.parametrize("name", NAMES)
def test_chats(name):
    expected, chats = read(name), read("chats")
    for (key, chat), answer in zip(chats.items(), ask(expected["model"], list(chats.values())), strict=True):
        theirs = expected["chats"][key]
        if theirs is not None:  # null: transformers refuses the chat
            assert answer.get("text") == theirs, f"{key}: {answer}"
