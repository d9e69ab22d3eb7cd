"""LangChain's ChatOpenAI, unchanged, against a real server."""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

import openai
import pytest
from rase_api import create_app
from rase_api.testing import Answering, ScriptedEngine, served
from rase_core.errors import QueueFull
from rase_core.scheduler import OnEvent
from rase_models.request import Question

if TYPE_CHECKING:
    from langchain_openai import ChatOpenAI

langchain_openai = pytest.importorskip("langchain_openai", reason="langchain-openai is not installed")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The address of a server whose model says "Paris."."""
    with served(create_app(ScriptedEngine())) as url:
        yield f"{url}/v1"


def chat(url: str, **options: object) -> "ChatOpenAI":
    made: ChatOpenAI = langchain_openai.ChatOpenAI(
        **{"base_url": url, "api_key": "-", "model": "demo", "max_retries": 0} | options
    )
    return made


def test_an_answer_comes_with_its_cost(url: str) -> None:
    answer = chat(url, temperature=0, seed=1, max_tokens=20, stop=["!"]).invoke("Hi")
    assert answer.content == "Paris."
    assert answer.usage_metadata is not None and answer.usage_metadata["total_tokens"] == 14
    assert answer.response_metadata["finish_reason"] == "stop"


def test_an_answer_streams_in_both_worlds(url: str) -> None:
    async def texts() -> list[str]:
        return [str(chunk.content) async for chunk in chat(url).astream("Hi")]

    assert "".join(str(chunk.content) for chunk in chat(url, stream_usage=True).stream("Hi")) == "Paris."
    assert "".join(asyncio.run(texts())) == "Paris."


def test_log_probabilities_and_responses_arrive(url: str) -> None:
    told = chat(url, logprobs=True, top_logprobs=2).invoke("Hi").response_metadata["logprobs"]["content"]
    assert [entry["token"] for entry in told] == list("Paris.")
    block = chat(url, use_responses_api=True).invoke("Hi").content[0]
    assert isinstance(block, dict) and block["text"] == "Paris."


def test_a_full_queue_is_tried_again() -> None:
    class Busy(ScriptedEngine):
        asked = 0

        def submit(self, model_id: str, question: Question, on_event: OnEvent) -> Answering:
            self.asked += 1
            if self.asked % 2:
                raise QueueFull(64)
            return super().submit(model_id, question, on_event)

    engine = Busy()
    with served(create_app(engine)) as busy:
        assert chat(f"{busy}/v1", max_retries=2).invoke("Hi").content == "Paris."
        assert "".join(str(c.content) for c in chat(f"{busy}/v1", max_retries=2).stream("Hi")) == "Paris."
        with pytest.raises(openai.RateLimitError):
            chat(f"{busy}/v1").invoke("Hi")
    assert engine.asked == 5


def test_an_unknown_model_is_openais_own_error(url: str) -> None:
    with pytest.raises(openai.NotFoundError, match="registered: demo"):
        chat(url, model="nope").invoke("Hi")
