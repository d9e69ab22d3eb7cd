"""A server that warns of what it does not know instead of refusing it."""

import logging
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from rase_api import create_app
from rase_api.testing import ScriptedEngine, served
from rase_models import Engine
from rase_models.testing import write_tiny_model

CHAT = {"model": "demo", "messages": [{"role": "user", "content": "Hi"}]}
URL = "/v1/chat/completions"
PART = {"type": "text", "text": "Hi", "colour": "red"}


@pytest.fixture(scope="module")
def lenient() -> Iterator[httpx.Client]:
    """A client of a lenient server."""
    with served(create_app(ScriptedEngine(), lenient=True)) as url, httpx.Client(base_url=url) as client:
        yield client


@pytest.mark.parametrize(
    ("path", "body", "names"),
    [
        (URL, CHAT | {"mood": "good", "humour": 1}, ["mood", "humour"]),
        (URL, CHAT | {"audio": {"voice": "x"}, "verbosity": "low"}, ["audio", "verbosity"]),
        (URL, CHAT | {"stream": True, "stream_options": {"x": 1}}, ["stream_options.x"]),
        (URL, CHAT | {"messages": [{"role": "user", "content": [PART]}]}, ["messages[0].content[0].colour"]),
        ("/v1/completions", {"model": "demo", "prompt": "Hi", "suffix": "x", "y": 1}, ["suffix", "y"]),
        ("/v1/messages", CHAT | {"max_tokens": 2, "mood": {"type": "x"}}, ["mood"]),
        ("/api/chat", CHAT | {"options": {"typical_p": 0.5, "z": 1}}, ["options.typical_p", "options.z"]),
        ("/generate", {"text": "Hi", "sampling_params": {"mood": "x"}}, ["sampling_params.mood"]),
        ("/apply-template", CHAT | {"mood": 1}, ["mood"]),
    ],
)
def test_what_is_not_known_or_not_done_is_warned_of(
    lenient: httpx.Client,
    client: httpx.Client,
    caplog: pytest.LogCaptureFixture,
    path: str,
    body: dict[str, object],
    names: list[str],
) -> None:
    caplog.set_level(logging.WARNING, "rase_api")
    assert lenient.post(path, json=body).status_code == 200
    for name in names:
        assert f"'{name}'" in caplog.text
    assert client.post(path, json=body | {"model": "demo"}).status_code == 400


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"mood": 1, "temperature": "hot"}, "temperature"),
        ({"mood": 1, "messages": []}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}, None),
    ],
)
def test_what_is_wrong_is_refused_all_the_same(
    lenient: httpx.Client, changes: dict[str, object], param: str | None
) -> None:
    refused = lenient.post(URL, json=CHAT | changes)
    assert refused.status_code == 400
    assert param in (None, refused.json()["error"]["param"])


def test_many_strange_names_make_a_short_warning(
    lenient: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "rase_api")
    strange = {f"name\n{number}" * 100: number for number in range(1000)}
    assert lenient.post(URL, json=CHAT | strange).status_code == 200
    assert len(caplog.records[-1].getMessage()) < 2000
    assert "\n" not in caplog.records[-1].getMessage()


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine whose model has a template that reads no variables."""
    folder: Path = tmp_path_factory.mktemp("store")
    with Engine(folder / "store", "reference") as engine:
        engine.import_model(write_tiny_model(folder / "tiny.gguf"), "demo", chat_template="chatml")
        yield engine


LOST: list[tuple[str, dict[str, object], str]] = [
    (URL, {"messages": CHAT["messages"], "chat_template_kwargs": {"mood": 1}, "max_tokens": 1}, "mood"),
    (URL, {"messages": CHAT["messages"], "reasoning_effort": "low", "max_tokens": 1}, "reasoning_effort"),
    ("/apply-template", {"messages": CHAT["messages"], "chat_template_kwargs": {"mood": 1}}, "mood"),
    (f"{URL}/input_tokens", {"messages": CHAT["messages"], "chat_template_kwargs": {"mood": 1}}, "mood"),
    ("/v1/responses", {"input": "Hi", "reasoning": {"effort": "low"}, "max_output_tokens": 16}, "effort"),
    ("/v1/messages", CHAT | {"thinking": {"type": "enabled"}, "max_tokens": 1}, "thinking"),
    ("/v1/messages/count_tokens", CHAT | {"output_config": {"effort": "low"}}, "effort"),
    ("/api/chat", CHAT | {"think": True, "options": {"num_predict": 1}}, "think"),
    ("/api/generate", {"prompt": "Hi", "think": "low", "options": {"num_predict": 1}}, "think"),
]


@pytest.mark.parametrize("is_lenient", [True, False])
def test_what_the_template_does_not_read_is_left_out_with_a_warning_or_refused(
    engine: Engine, caplog: pytest.LogCaptureFixture, is_lenient: bool
) -> None:
    with served(create_app(engine, lenient=is_lenient)) as url, httpx.Client(base_url=url) as client:
        for path, fields, name in LOST:
            caplog.clear()
            answer = client.post(path, json={"model": "demo", **fields})
            assert answer.status_code == (200 if is_lenient else 400), answer.text
            assert ("the chat template does not read were left out" in caplog.text) is is_lenient
            assert is_lenient or name in answer.text
