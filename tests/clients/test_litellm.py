"""LiteLLM, both as an OpenAI-compatible server and as vLLM."""
import litellm
import pytest

MESSAGES = [{"role": "user", "content": "Say hello to the world."}]


@pytest.mark.parametrize("provider", ["openai", "hosted_vllm"])
def test_chat_and_stream(server, provider):
    fields = dict(model=f"{provider}/{server.model}", api_base=server.url + "/v1", api_key="none",
                  messages=MESSAGES, temperature=0, max_tokens=10)
    reply = litellm.completion(**fields)
    text = reply.choices[0].message.content
    assert text and reply.usage.completion_tokens <= 10
    pieces = [chunk.choices[0].delta.content or "" for chunk in litellm.completion(stream=True, **fields)
              if chunk.choices]
    assert "".join(pieces) == text


def test_text_completion(server):
    reply = litellm.text_completion(model=f"text-completion-openai/{server.model}", api_base=server.url + "/v1",
                                    api_key="none", prompt="Once upon a time", temperature=0, max_tokens=6)
    assert reply.choices[0].text == server.completion(prompt="Once upon a time", max_tokens=6)["choices"][0]["text"]


def test_embedding(server):
    reply = litellm.embedding(model=f"openai/{server.model}", api_base=server.url + "/v1", api_key="none",
                              input=["a cat", "a dog"], encoding_format="float")
    assert len(reply.data) == 2


def test_errors_keep_their_kind(server):
    with pytest.raises(litellm.BadRequestError) as error:
        litellm.completion(model=f"openai/{server.model}", api_base=server.url + "/v1", api_key="none",
                           messages=MESSAGES, temperature=7)
    assert "temperature" in str(error.value)
    with pytest.raises(litellm.ContextWindowExceededError):
        litellm.completion(model=f"openai/{server.model}", api_base=server.url + "/v1", api_key="none",
                           messages=[{"role": "user", "content": "word " * 5000}], max_tokens=10)
