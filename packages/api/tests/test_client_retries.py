"""What the official clients try again, and what they do not."""

import threading
from collections.abc import Callable
from typing import Any

import anthropic
import ollama
import openai
import pytest
from openai.types.chat import ChatCompletion
from rase_api import create_app
from rase_api.testing import Answering, ScriptedEngine, served
from rase_core.errors import QueueFull
from rase_core.scheduler import OnEvent
from rase_models.request import Question

CHAT: dict[str, Any] = {"model": "demo", "messages": [{"role": "user", "content": "Hi"}]}


class Busy(ScriptedEngine):
    """An engine that has no place for the first questions."""

    def __init__(self, refusals: int) -> None:
        super().__init__()
        self.asked, self._left, self._lock = 0, refusals, threading.Lock()

    def submit(self, model_id: str, question: Question, on_event: OnEvent) -> Answering:
        with self._lock:
            self.asked += 1
            self._left -= 1
            if self._left >= 0:
                raise QueueFull(64)
        return super().submit(model_id, question, on_event)


def by_openai(url: str, retries: int) -> str | None:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="-", max_retries=retries) as client:
        answer: ChatCompletion = client.chat.completions.create(**CHAT)
        return answer.choices[0].message.content


def by_openai_stream(url: str, retries: int) -> str | None:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="-", max_retries=retries) as client:
        chunks = client.chat.completions.create(**CHAT, stream=True)
        return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


def by_anthropic(url: str, retries: int) -> str | None:
    with anthropic.Anthropic(base_url=url, api_key="-", max_retries=retries) as client:
        answer: anthropic.types.Message = client.messages.create(**CHAT, max_tokens=9)
        (block,) = answer.content
        assert block.type == "text"
        return block.text


CLIENTS = (by_openai, by_openai_stream, by_anthropic)


@pytest.mark.parametrize("ask", CLIENTS)
def test_a_full_queue_is_tried_again(ask: Callable[[str, int], str | None]) -> None:
    engine = Busy(1)
    with served(create_app(engine)) as url:
        assert ask(url, 2) == "Paris."
    assert engine.asked == 2


@pytest.mark.parametrize("ask", CLIENTS)
def test_a_full_queue_is_the_clients_own_error_when_it_stays_full(
    ask: Callable[[str, int], str | None],
) -> None:
    with (
        served(create_app(Busy(9))) as url,
        pytest.raises((openai.RateLimitError, anthropic.RateLimitError)) as failure,
    ):
        ask(url, 0)
    assert isinstance(failure.value, openai.RateLimitError | anthropic.RateLimitError)
    assert failure.value.response.headers["retry-after"] == "1"


def test_what_is_wrong_is_not_tried_again() -> None:
    engine = Busy(0)
    with (
        served(create_app(engine)) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key="-", max_retries=2) as client,
    ):
        with pytest.raises(openai.BadRequestError, match="temperature"):
            client.chat.completions.create(**CHAT, temperature=-1)
        with pytest.raises(openai.BadRequestError, match="maximum context length"):
            client.chat.completions.create(**CHAT | {"messages": [{"role": "user", "content": "x" * 500}]})
    assert engine.asked <= 1  # the long prompt, once


def test_ollamas_client_is_told_of_a_full_queue() -> None:
    with (
        served(create_app(Busy(1))) as url,
        ollama.Client(host=url) as client,
        pytest.raises(ollama.ResponseError) as failure,
    ):
        client.chat(**CHAT)
    assert failure.value.status_code == 429
