"""What an engine's methods say about arguments of another type or out of range: each by name, at once."""

import asyncio
from collections.abc import Callable
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
from rase_core.errors import InvalidParameter
from rase_core.sampling import GenerationConfig
from rase_models import ChatOptions, Engine, Tool
from rase_models.async_engine import AsyncEngine

CONFIG = GenerationConfig(max_tokens=2, ignore_eos=True)
QUESTION = [{"role": "user", "content": "Hello"}]


@pytest.fixture
def engine(tmp_path: Path, tiny_path: Path) -> Engine:
    engine = Engine(tmp_path / "store", "reference")
    engine.import_model(tiny_path, "tiny", chat_template="chatml")
    return engine


@pytest.mark.parametrize("seconds", ["5m", nan, inf, -1, -inf, True, b"5", [], 10**400])
def test_a_time_that_is_none_is_refused_and_the_model_answers_as_before(engine: Engine, seconds: Any) -> None:
    engine.load("tiny")
    engine.keep("tiny", 60)
    with pytest.raises(InvalidParameter, match=r"invalid seconds: .* expected a number of seconds, 0 to "):
        engine.keep("tiny", seconds)
    assert engine.loaded_models()[0].keep_alive == 60
    assert engine.generate("tiny", "Hello", CONFIG).tokens


ARGUMENTS: list[tuple[str, object]] = [
    *(("keep_alive", value) for value in ("x", nan, inf, -1, True)),
    *(("max_memory", value) for value in ("8GB", -1, 1.5, nan, True)),
    *(("kv_memory", value) for value in ("x", -1, 1e9)),
    *(("context_length", value) for value in ("x", 0, -1, 2.0)),
    *(("device", value) for value in (5, None, b"cpu")),
    ("store", 5),
    ("store", b"store"),
    ("store", []),
    *(("threads", value) for value in ("4", 1.5)),
    *(("gpu_layers", value) for value in ("all", 0.5)),
    ("kv_type", 8),
    ("limits", {"running": 3}),
    ("progress", 5),
    ("cache", {}),
]


@pytest.mark.parametrize(("name", "value"), ARGUMENTS)
def test_an_engine_says_which_of_its_arguments_is_at_fault(name: str, value: Any) -> None:
    with pytest.raises(InvalidParameter, match=rf"invalid {name}: .*, expected ") as caught:
        Engine(**{name: value})
    assert caught.value.parameter == name


CALLS: list[tuple[str, Callable[[Engine, Any], object]]] = [
    ("path", lambda engine, _: engine.import_model(None, "x")),  # type: ignore[arg-type]
    ("path", lambda engine, _: engine.import_model(b"x.gguf", "x")),  # type: ignore[arg-type]
    ("tokenizer", lambda engine, tiny: engine.import_model(tiny, "x", tokenizer=5)),  # type: ignore[arg-type]
    ("defaults", lambda engine, tiny: engine.import_model(tiny, "x", defaults=5)),  # type: ignore[arg-type]
    ("kind", lambda engine, tiny: engine.import_model(tiny, "x", kind="chat")),  # type: ignore[arg-type]
    (
        "context_length",
        lambda engine, tiny: engine.import_model(tiny, "x", context_length="8k"),  # type: ignore[arg-type]
    ),
    ("path", lambda engine, _: engine.attach_tokenizer("tiny", 5)),  # type: ignore[arg-type]
    ("repo", lambda engine, _: engine.pull(5, None, "x")),  # type: ignore[arg-type]
    ("weights", lambda engine, _: engine.generate_file(5, None, "x")),  # type: ignore[arg-type]
    ("tokenizer", lambda engine, tiny: engine.generate_file(tiny, 5, "x")),  # type: ignore[arg-type]
    ("cancelled", lambda engine, _: engine.chat("tiny", QUESTION, cancelled=5)),  # type: ignore[arg-type]
    ("cancelled", lambda engine, _: engine.stream_chat("tiny", QUESTION, cancelled=5)),  # type: ignore[call-overload]
    ("on_text", lambda engine, _: engine.generate("tiny", "x", on_text="x")),  # type: ignore[arg-type]
    ("options", lambda engine, _: engine.reply("tiny", QUESTION, options={})),  # type: ignore[arg-type]
    ("options", lambda engine, _: engine.render("tiny", QUESTION, options={})),  # type: ignore[arg-type]
    ("kind", lambda engine, _: engine.chat_as("tiny", QUESTION, dict)),  # type: ignore[type-var]
    ("text", lambda engine, _: engine.count_tokens("tiny", 5)),  # type: ignore[arg-type]
    ("grace", lambda engine, _: engine.close("soon")),  # type: ignore[arg-type]
    ("parameters", lambda _, __: Tool("a", "x", "zz")),  # type: ignore[arg-type]
    ("description", lambda _, __: Tool("a", 5)),  # type: ignore[arg-type]
    ("name", lambda _, __: Tool(5)),  # type: ignore[arg-type]
    ("tools", lambda _, __: ChatOptions(tools=("x",))),  # type: ignore[arg-type]
    ("tools", lambda _, __: ChatOptions(tools=5)),  # type: ignore[arg-type]
    ("variables", lambda _, __: ChatOptions(variables=[])),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("name", "call"), CALLS)
def test_a_method_says_which_of_its_arguments_is_at_fault(
    engine: Engine, tiny_path: Path, name: str, call: Callable[[Engine, Any], object]
) -> None:
    with pytest.raises(InvalidParameter) as caught:
        call(engine, tiny_path)
    assert caught.value.parameter == name
    assert engine.generate("tiny", "Hello", CONFIG).tokens


def test_the_engine_for_asyncio_says_so_too(engine: Engine) -> None:
    async def ask() -> None:
        async with AsyncEngine(engine) as served:
            with pytest.raises(InvalidParameter, match="invalid options: "):
                await served.reply("tiny", QUESTION, options={})  # type: ignore[arg-type]
            with pytest.raises(InvalidParameter, match="invalid grace: "):
                await served.aclose("soon")  # type: ignore[arg-type]
            assert (await served.generate("tiny", "Hello", CONFIG)).tokens

    asyncio.run(ask())
