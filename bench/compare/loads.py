"""What clients send: prompts cut from one text, the same for every server and every run with the same seed."""
import json
import random
import urllib.request

import servers
from machine import ROOT


def text():
    """Prose and code of the project itself, the same for all engines in one run."""
    files = [*sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "src" / "engine").glob("*.cpp"))]
    return "\n\n".join(path.read_text() for path in files)


def token_pool(model):
    """The text as token ids of this model."""
    server = servers.quire(servers.quire_binary(), model.path, 1)
    try:
        body = json.dumps({"model": "m", "prompt": text(), "add_special_tokens": False}).encode()
        request = urllib.request.Request(f"{server.url}/tokenize", body, {"Content-Type": "application/json"})
        return json.load(urllib.request.urlopen(request))["tokens"]
    finally:
        server.stop()


class Prompts:
    """Slices of the pool that begin at places of their own."""

    def __init__(self, pool, seed):
        self.pool, self.random = pool, random.Random(seed)

    def cut(self, tokens):
        begin = self.random.randrange(len(self.pool) - tokens)
        return self.pool[begin:begin + tokens]


# Mixed lengths: prompts of 32 to 1024 tokens, most of them short; answers of 16 to 128.
LONGEST_PROMPT, LONGEST_ANSWER = 1024, 128


def mixed(pool, count, seed):
    prompts = Prompts(pool, seed)
    requests = []
    for _ in range(count):
        tokens = int(min(LONGEST_PROMPT, max(32, prompts.random.lognormvariate(5.2, 0.8))))
        requests.append((prompts.cut(tokens), prompts.random.randrange(16, LONGEST_ANSWER + 1)))
    return requests


def shared_prefix(pool, count, seed, prefix=1024, own=64, answer=16):
    """Requests that begin with the same `prefix` tokens and go on with `own` of each."""
    prompts = Prompts(pool, seed)
    beginning = prompts.cut(prefix)
    return [(beginning + prompts.cut(own), answer) for _ in range(count)]
