"""LangChain's ChatOpenAI and OpenAIEmbeddings."""
import asyncio

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings


@pytest.fixture
def chat(server):
    return ChatOpenAI(model=server.model, base_url=server.url + "/v1", api_key="none", temperature=0, max_tokens=12)


MESSAGES = [SystemMessage("Answer in one word."), HumanMessage("What is the capital of France?")]


def test_invoke(chat, server):
    reply = chat.invoke(MESSAGES)
    assert isinstance(reply, AIMessage) and reply.content
    assert reply.usage_metadata["output_tokens"] <= 12
    want = server.http.post("/v1/chat/completions", json={
        "messages": [{"role": "system", "content": "Answer in one word."},
                     {"role": "user", "content": "What is the capital of France?"}],
        "temperature": 0, "max_tokens": 12}).json()
    assert reply.content == want["choices"][0]["message"]["content"]
    assert reply.response_metadata["finish_reason"] == want["choices"][0]["finish_reason"]


def test_stream_equals_invoke(chat):
    pieces = [chunk.content for chunk in chat.stream(MESSAGES)]
    assert len(pieces) > 2 and "".join(pieces) == chat.invoke(MESSAGES).content


def test_batch_and_async(chat):
    questions = ["Name a colour.", "Name a fruit.", "Name a bird."]
    one_by_one = [chat.invoke(q).content for q in questions]
    assert [reply.content for reply in chat.batch(questions)] == one_by_one

    async def ask():
        return await asyncio.gather(*(chat.ainvoke(q) for q in questions))
    assert [reply.content for reply in asyncio.run(ask())] == one_by_one


def test_logprobs_and_stop(chat):
    reply = chat.bind(logprobs=True, top_logprobs=2).invoke(MESSAGES)
    content = reply.response_metadata["logprobs"]["content"]
    assert content and all(len(entry["top_logprobs"]) == 2 for entry in content)
    whole = chat.invoke("Count: one two three four").content
    stop = whole[3:6]
    assert chat.invoke("Count: one two three four", stop=[stop]).content == whole[:whole.index(stop)]


def test_completions(server):
    llm = OpenAI(model=server.model, base_url=server.url + "/v1", api_key="none", temperature=0, max_tokens=8)
    assert llm.invoke("Once upon a time") == server.completion(
        prompt="Once upon a time", max_tokens=8)["choices"][0]["text"]


def test_embeddings(server):
    # Tokenized by the server, not by a tokenizer of another model.
    client = OpenAIEmbeddings(model=server.model, base_url=server.url + "/v1", api_key="none",
                              check_embedding_ctx_length=False)
    one, two = client.embed_documents(["a cat", "a dog"])
    assert len(one) == len(two) > 64 and one != two
    assert client.embed_query("a cat") == pytest.approx(one, abs=1e-6)
