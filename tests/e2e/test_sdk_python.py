"""The unmodified OpenAI Python SDK, as the README shows it."""
import re
import typing

import openai
import pydantic
import pytest
from quire_process import ROOT


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="unused", max_retries=0)


def test_the_readme_snippet_runs(server, capsys):
    readme = (ROOT / "README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", readme, re.S)
    assert "http://127.0.0.1:8000/v1" in code
    exec(compile(code.replace("http://127.0.0.1:8000", server.url), "README.md", "exec"), {})
    assert capsys.readouterr().out.strip(), "the snippet printed nothing"


def test_the_readme_curl_body_is_answered(server):
    import json
    readme = (ROOT / "README.md").read_text()
    (body,) = re.findall(r"curl [^\n]*/v1/chat/completions.*?-d '(.*?)'", readme, re.S)
    reply = server.http.post("/v1/chat/completions", json=json.loads(body))
    assert reply.status_code == 200, reply.text
    assert reply.json()["choices"][0]["message"]["content"]


def test_models(client, server):
    assert [m.id for m in client.models.list()] == [server.model]


def test_chat_stream_equals_the_plain_answer(client, server):
    ask = dict(model=server.model, messages=[{"role": "user", "content": "Name three colors."}], max_tokens=24, temperature=0)
    plain = client.chat.completions.create(**ask)
    chunks = list(client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}))
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == plain.choices[0].message.content
    assert chunks[-1].usage == plain.usage


class Flag(pydantic.BaseModel):
    country: str = pydantic.Field(pattern="^[A-Z][a-z]{2,9}$")
    colours: list[typing.Literal["red", "white", "blue"]] = pydantic.Field(min_length=1, max_length=3)
    stars: int = pydantic.Field(ge=0, le=50)


FLAG = [{"role": "user", "content": "Describe the flag of France as JSON."}]


def test_parse_gives_an_object(client, server):
    reply = client.chat.completions.parse(model=server.model, messages=FLAG, response_format=Flag, temperature=0,
                                          max_tokens=120)
    assert isinstance(reply.choices[0].message.parsed, Flag)
    assert reply.choices[0].finish_reason == "stop"


def test_the_stream_helper_gives_the_same_object(client, server):
    fields = dict(model=server.model, messages=FLAG, response_format=Flag, temperature=0, max_tokens=120)
    whole = client.chat.completions.parse(**fields).choices[0].message
    with client.chat.completions.stream(**fields) as stream:
        kinds = [event.type for event in stream]
        last = stream.get_final_completion().choices[0].message
    assert last.parsed == whole.parsed and last.content == whole.content
    assert kinds.count("content.delta") > 2 and kinds.count("content.done") == 1


def test_several_prompts(client, server):
    reply = client.completions.create(model=server.model, prompt=["a", "b", "c"], max_tokens=3, temperature=0)
    assert [c.index for c in reply.choices] == [0, 1, 2]


def test_errors_are_the_sdk_s_classes(client, server):
    with pytest.raises(openai.BadRequestError, match="temperature"):
        client.chat.completions.create(model=server.model, messages=[{"role": "user", "content": "x"}], temperature=-1)
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="no-such-model", messages=[{"role": "user", "content": "x"}])


def test_async_client(server):
    import asyncio

    async def ask():
        async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="unused", max_retries=0) as client:
            calls = [client.completions.create(model=server.model, prompt=f"{i}", max_tokens=4, temperature=0) for i in range(8)]
            return await asyncio.gather(*calls)

    assert len(asyncio.run(ask())) == 8


def test_api_key(start, model):
    guarded = start(model, "--api-key", "secret", "--max-model-len", "512")
    assert guarded.http.get("/health").status_code == 200
    for key, right in (("secret", True), ("wrong", False)):
        client = openai.OpenAI(base_url=guarded.url + "/v1", api_key=key, max_retries=0)
        if right:
            assert list(client.models.list())
        else:
            with pytest.raises(openai.AuthenticationError):
                client.models.list()
    guarded.kill()
