"""A client that takes little processor time: completions streamed over plain sockets, one asyncio task each."""
import asyncio
import json
import time
from dataclasses import dataclass, field

from machine import BenchError


@dataclass
class Answer:
    sent: float                                 # seconds, monotonic
    times: list = field(default_factory=list)   # when each event with text arrived
    prompt_tokens: int = 0
    tokens: int = 0
    end: float = 0.0

    @property
    def first_s(self):
        return self.times[0] - self.sent

    @property
    def per_token_s(self):
        """Mean time per token after the first one."""
        return (self.end - self.times[0]) / max(1, self.tokens - 1)

    def gaps(self, begin=0.0, end=float("inf")):
        """Times between events, of those that arrived between two moments."""
        return [b - a for a, b in zip(self.times, self.times[1:]) if begin <= b <= end]


def _request_bytes(port, body):
    text = json.dumps(body).encode()
    return (f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\nConnection: close\r\n"
            f"Content-Length: {len(text)}\r\n\r\n").encode() + text


async def complete(port, prompt, max_tokens, answer=None, **extra):
    """Streams one completion of token ids; fills and returns `answer`."""
    body = {"model": "m", "prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True, "temperature": 0, "stream": True,
            "stream_options": {"include_usage": True}, **extra}
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer = answer or Answer(0.0)
    try:
        answer.sent = time.monotonic()
        writer.write(_request_bytes(port, body))
        await writer.drain()
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in head.split(b"\r\n", 1)[0]:
            raise BenchError(f"the server answers {head[:60]!r} {(await reader.read(500))!r}")
        tail = b""
        while piece := await reader.read(1 << 16):
            now = time.monotonic()
            tail = _take_events(tail + piece, now, answer)
        if answer.tokens == 0:
            raise BenchError(f"a stream ended without usage: {tail[-300:]!r}")
        return answer
    finally:
        writer.close()


def _take_events(data, now, answer):
    """Notes whole events; the rest. Chunk sizes between them are passed over: an event begins with 'data: '."""
    *events, rest = data.split(b"\n\n")
    for event in events:
        at = event.find(b"data: ")
        if at < 0 or event.startswith(b"[DONE]", at + 6):
            continue
        if b'"error"' in event[at:at + 20]:
            raise BenchError(f"the stream says {event[at:at + 300]!r}")
        if b'"usage":{' in event or b'"usage": {' in event:
            usage = json.loads(event[event.index(b"{", at):event.rindex(b"}") + 1])["usage"]
            answer.prompt_tokens, answer.tokens = usage["prompt_tokens"], usage["completion_tokens"]
            if not answer.end:
                answer.end = now
        else:
            answer.times.append(now)
            answer.end = now
    return rest


async def run_clients(port, requests, clients, **extra):
    """`clients` clients take the (prompt, max_tokens) one after the other; the answers and the seconds of all."""
    waiting, answers = list(reversed(requests)), []

    async def one():
        while waiting:
            prompt, max_tokens = waiting.pop()
            answers.append(await complete(port, prompt, max_tokens, **extra))

    begin = time.monotonic()
    await asyncio.gather(*(one() for _ in range(clients)))
    return answers, time.monotonic() - begin
