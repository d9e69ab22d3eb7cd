"""A bug in what writes a stream is told as any failure is, logged once, and nothing goes on behind it."""

import json
import logging
import time
from dataclasses import replace
from typing import Any

import httpx
import pytest
from rase_api import create_app
from rase_api.testing import Answering, ScriptedEngine, served
from rase_core.scheduler import Ended, Event, OnEvent, Piece
from rase_core.testing_waits import wait_for
from rase_models.request import Question

HI = {"messages": [{"role": "user", "content": "Hi"}]}
USAGE = {"stream_options": {"include_usage": True}}
NO_TIMES: dict[str, Any] = {"prefill_seconds": None}
NO_REASON: dict[str, Any] = {"stop_reason": "tired"}
NO_COUNT: dict[str, Any] = {"prompt_tokens": None}


class Broken(ScriptedEngine):
    """An engine whose answers end with what no writer expects."""

    def __init__(self, **changes: Any) -> None:
        super().__init__()
        self._changes = changes

    def submit(self, model_id: str, question: Question, on_event: OnEvent) -> Answering:
        def hear(event: Event) -> bool | None:
            if isinstance(event, Ended):
                event = Ended(event.choice, replace(event.generation, **self._changes))
            return on_event(event)

        return super().submit(model_id, question, hear)


@pytest.mark.parametrize(
    ("path", "body", "changes"),
    [
        ("/v1/chat/completions", HI, NO_REASON),
        ("/v1/chat/completions", HI | USAGE, NO_TIMES),
        ("/v1/completions", {"prompt": "Hi"}, NO_REASON),
        ("/v1/completions", {"prompt": "Hi"}, NO_COUNT),
        ("/v1/responses", {"input": "Hi"}, NO_TIMES),
        ("/v1/messages", HI | {"max_tokens": 9}, NO_REASON),
        ("/api/chat", HI, NO_REASON),
        ("/api/generate", {"prompt": "Hi"}, NO_REASON),
    ],
)
def test_a_bug_is_the_last_event_in_the_words_of_its_api(
    caplog: pytest.LogCaptureFixture, path: str, body: dict[str, object], changes: dict[str, Any]
) -> None:
    caplog.set_level(logging.INFO)
    with served(create_app(Broken(**changes))) as url:
        text = httpx.post(f"{url}{path}", json={"model": "demo", "stream": True, **body}).text
        wait_for(lambda: "outcome=" in caplog.text)
    *before, last = [
        line.removeprefix("data: ") for line in text.splitlines() if line.startswith(("data: ", "{"))
    ]
    assert len(before) >= len("Paris.")
    assert "[DONE]" not in text and "message_stop" not in text
    assert "The server failed to process the request." in json.dumps(json.loads(last))
    bugs = [record for record in caplog.records if record.exc_info]
    assert [record.getMessage() for record in bugs] == ["a request failed"]
    assert "outcome=server_error" in caplog.text


def test_what_could_not_be_written_is_not_computed_on() -> None:
    class Unwritable(ScriptedEngine):
        def submit(self, model_id: str, question: Question, on_event: OnEvent) -> Answering:
            def hear(event: Event) -> bool | None:
                is_later = isinstance(event, Piece) and len(self.decoder.calls) > 3
                return on_event(replace(event, logprobs=(None,)) if is_later else event)  # type: ignore[arg-type]

            return super().submit(model_id, question, hear)

    engine = Unwritable("word " * 1000, context_length=10_000, before_token=lambda: time.sleep(0.005))
    body = {"model": "demo", "prompt": "Hi", "stream": True, "max_tokens": 5000}
    with served(create_app(engine)) as url:
        assert "internal_error" in httpx.post(f"{url}/v1/completions", json=body).text
        computed = len(engine.decoder.calls)
        time.sleep(0.1)
        assert len(engine.decoder.calls) <= computed + 1 < 100
