"""What is asked of an engine and cannot be: refused by name, soon, before anything is computed."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rase_core.errors import (
    ContextOverflow,
    EngineError,
    InvalidConversation,
    InvalidParameter,
    UnencodableText,
)
from rase_core.logprobs import Logprobs
from rase_core.sampling import GenerationConfig
from rase_models import Engine
from rase_models.request import Conversation, Terms

CONFIG = GenerationConfig(max_tokens=1)
HUGE = "a" * 8_000_000


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory, tiny_path: Path) -> Iterator[Engine]:
    with Engine(tmp_path_factory.mktemp("store"), "reference") as engine:
        engine.import_model(tiny_path, "m", chat_template="chatml")
        engine.generate("m", "a", CONFIG)
        yield engine


def test_a_text_that_is_much_too_long_is_not_even_tokenised(engine: Engine, tiny_path: Path) -> None:
    asks = (
        lambda: engine.generate("m", HUGE, CONFIG),
        lambda: engine.stream_generate("m", HUGE, CONFIG),
        lambda: engine.chat("m", [{"role": "user", "content": HUGE}], CONFIG),
        lambda: engine.prompt_tokens("m", Conversation([{"role": "user", "content": HUGE}])),
        lambda: engine.generate_file(tiny_path, None, HUGE, CONFIG),
    )
    start = time.process_time()
    for ask in asks:
        with pytest.raises(ContextOverflow, match=r"has at least [0-9]+ tokens") as failure:
            ask()
        assert failure.value.is_least
        assert failure.value.limit < failure.value.tokens <= len(HUGE)
    assert time.process_time() - start < 3


@pytest.mark.parametrize(
    "prompt", [None, 5, 1.5, b"hi", bytearray(b"hi"), {1: 2}, {1, 2}, object(), iter(())]
)
def test_what_is_no_prompt_is_refused(engine: Engine, prompt: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"invalid prompt: .*expected a string or a list of token ids"):
        engine.generate("m", prompt, CONFIG)


@pytest.mark.parametrize("prompt", [[None], ["a"], [1.5], [b"a"], [[1]], [-1], []])
def test_a_list_of_other_things_than_tokens_is_refused(engine: Engine, prompt: Any) -> None:
    with pytest.raises(InvalidParameter, match="invalid prompt"):
        engine.generate("m", prompt, CONFIG)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("config", {}),
        ("config", "greedy"),
        ("choice", None),
        ("choice", 1.5),
        ("timeout", "soon"),
        ("timeout", True),
        ("timeout", 0),
        ("timeout", -0.5),
        ("timeout", float("nan")),
        ("response_format", {"type": "json_object"}),
    ],
)
def test_impossible_terms_are_refused(engine: Engine, name: str, value: Any) -> None:
    with pytest.raises(InvalidParameter, match=f"invalid {name}"):
        Terms(**{name: value})
    for ask in (engine.generate, engine.stream_generate):
        with pytest.raises(InvalidParameter, match=f"invalid {name}"):
            ask("m", "a", **{name: value})
    with pytest.raises(InvalidParameter, match=f"invalid {name}"):
        engine.chat("m", [{"role": "user", "content": "a"}], **{name: value})


@pytest.mark.parametrize("n", [None, "2", 1.5, True, 0])
def test_an_impossible_number_of_choices_is_refused(engine: Engine, n: Any) -> None:
    with pytest.raises(InvalidParameter, match="invalid n"):
        engine.generate_choices("m", "a", n, CONFIG)


@pytest.mark.parametrize(
    ("unknown", "told"),
    [
        ({"temprature": 1}, "'temprature': .* takes choice, timeout, response_format, logprobs$"),
        ({"n": 2}, "'n': several answers come of generate_choices and chat_choices"),
        ({"config": None}, "config"),
    ],
)
def test_unknown_and_doubled_terms_are_refused(engine: Engine, unknown: dict[str, Any], told: str) -> None:
    with pytest.raises(TypeError, match=told):
        engine.generate("tiny", "Hi", None, **unknown)
    with pytest.raises(TypeError, match=told):
        engine.stream_chat("tiny", [{"role": "user", "content": "Hi"}], None, **unknown)


def test_every_method_that_answers_tells_probabilities_if_asked(engine: Engine) -> None:
    messages = [{"role": "user", "content": "a"}]
    for answer in (
        engine.generate("m", "a", CONFIG, logprobs=Logprobs(top=2)),
        engine.chat("m", messages, CONFIG, logprobs=Logprobs(top=2)),
        *engine.generate_choices("m", "a", 2, CONFIG, logprobs=Logprobs(top=2)),
    ):
        assert answer.logprobs is not None
        assert [told.token for told in answer.logprobs] == list(answer.tokens)
        assert all(len(told.top) == 2 for told in answer.logprobs)


def test_a_lone_surrogate_is_refused_wherever_there_is_text(engine: Engine) -> None:
    asks = (
        lambda: engine.generate("m", "\ud800", CONFIG),
        lambda: engine.count_tokens("m", "\ud800"),
    )
    for ask in asks:
        with pytest.raises(UnencodableText, match="lone surrogate"):
            ask()
    for message in (
        {"role": "user", "content": "a\udc00"},
        {"role": "user", "content": [{"type": "text", "text": "\ud800"}]},
        {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {"a": ["\ud800"]}}}]},
        {"role": "user", "content": "a", "more": {"\ud800": 1}},
    ):
        with pytest.raises(InvalidConversation, match=r"messages\[0\]: a text has the lone surrogate"):
            engine.chat("m", [message], CONFIG)
    with pytest.raises(InvalidParameter, match=r"stop.*lone surrogates"):
        GenerationConfig(stop=("\ud800",))


def test_a_prompt_without_a_token_is_told_as_it_was_given(engine: Engine) -> None:
    for prompt, told in (("", "''"), ([], r"\[\]")):
        with pytest.raises(InvalidParameter, match=f"invalid prompt: {told}, expected .*at least one token"):
            engine.generate("m", prompt, CONFIG)


@pytest.mark.parametrize("text", [None, 5, b"hi"])
def test_what_is_no_text_is_not_counted(engine: Engine, text: Any) -> None:
    with pytest.raises(InvalidParameter, match="expected a text"):
        engine.count_tokens("m", text)


@pytest.mark.parametrize("model", [None, 5, b"m", "\ud800"])
def test_what_is_no_name_of_a_model_is_refused(engine: Engine, model: Any) -> None:
    with pytest.raises(EngineError):
        engine.generate(model, "a", CONFIG)


class Read(list[dict[str, str]]):
    """Messages that count how often they are gone through."""

    times = 0

    def __iter__(self) -> Iterator[dict[str, str]]:
        self.times += 1
        return super().__iter__()


def test_the_prompt_of_a_request_is_made_once(engine: Engine) -> None:
    messages = Read([{"role": "user", "content": "abc"}])
    question = Conversation(messages, Terms(config=CONFIG), is_read=True)
    tokens = engine.prompt_tokens("m", question)
    times = messages.times
    engine.reading("m", question)
    assert engine.submit("m", question).result()[0].prompt_tokens == tokens
    assert messages.times == times > 0


def test_another_model_has_a_prompt_of_its_own_for_a_conversation(engine: Engine) -> None:
    engine.import_model(engine.inspect("m").weights_path, "terse", chat_template="{# short #}hi")
    question = Conversation([{"role": "user", "content": "abc"}])
    assert engine.prompt_tokens("m", question) > engine.prompt_tokens("terse", question)
    assert engine.prompt_tokens("m", question) > 2
