"""Answers as objects of a class that tells its JSON schema, as Pydantic's models do."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from rase_core.arguments import Kind, Kinds, check_arguments
from rase_core.errors import EngineError
from rase_core.generation import Generation, StopReason

from rase_models.async_stream import AsyncTextStream
from rase_models.chat.reply import Reading
from rase_models.constraints import ResponseFormat
from rase_models.text_stream import TextStream


class Described(Protocol):
    """A class whose JSON schema is known, and which reads JSON; the names are Pydantic's."""

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        """Return the schema."""

    @classmethod
    def model_validate_json(cls, json_data: str, /) -> Self:
        """Return the object that a text is."""


T = TypeVar("T", bound=Described)


class UnfinishedAnswer(EngineError):
    """An answer is no object, since it was ended before its end: `generation` is what there is."""

    def __init__(self, name: str, generation: Generation | None) -> None:
        reason = "failed or not read" if generation is None else generation.stop_reason.value
        super().__init__(
            f"the answer is no whole {name}: {reason}", "read all of it, and give it more tokens"
        )
        self.generation = generation


def _is_described(kind: object) -> bool:
    names = ("model_json_schema", "model_validate_json")
    return isinstance(kind, type) and all(callable(getattr(kind, name, None)) for name in names)


_KINDS: Kinds = {
    "kind": Kind("a class with model_json_schema and model_validate_json, as Pydantic's have", _is_described)
}


def format_of(kind: type[Described]) -> ResponseFormat:
    """Return the format of objects of a class. Raises InvalidParameter for what tells no schema."""
    check_arguments(_KINDS, kind=kind)
    return ResponseFormat.json_schema(kind.model_json_schema())


class TypedStream(Iterator[str], Generic[T]):
    """The texts of one answer as they come, thoughts included, and then the object; see TextStream."""

    def __init__(self, stream: TextStream, reading: Reading, kind: type[T]) -> None:
        self._stream, self._reading, self._kind = stream, reading, kind

    @property
    def generation(self) -> Generation | None:
        """The answer once the stream has ended; None before, and when it failed."""
        return self._stream.generation

    @property
    def value(self) -> T:
        """The object. Raises UnfinishedAnswer, and what the class raises of one that it does not like."""
        return _value(self._kind, self._stream.generation, self._reading)

    def close(self) -> None:
        """End the answer and wait until it has ended."""
        self._stream.close()

    def __next__(self) -> str:
        return next(self._stream)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncTypedStream(AsyncIterator[str], Generic[T]):
    """The texts of one answer as they come, thoughts included, and then the object; see AsyncTextStream."""

    def __init__(
        self, stream: AsyncTextStream, reading: Callable[[], Awaitable[Reading]], kind: type[T]
    ) -> None:
        self._stream, self._make_reading, self._kind = stream, reading, kind
        self._reading: Reading | None = None

    @property
    def generation(self) -> Generation | None:
        """The answer once the stream has ended; None before, and when it failed."""
        return self._stream.generation

    @property
    def value(self) -> T:
        """The object. Raises UnfinishedAnswer, and what the class raises of one that it does not like."""
        return _value(self._kind, self._stream.generation, self._reading)

    async def aclose(self) -> None:
        """End the answer and wait until it has ended."""
        await self._stream.aclose()

    async def __anext__(self) -> str:
        text = await anext(self._stream, "")
        if self._reading is None:  # not before, when the model may have to be loaded
            self._reading = await self._make_reading()
        if not text:
            raise StopAsyncIteration
        return text

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _value(kind: type[T], generation: Generation | None, reading: Reading | None) -> T:
    if generation is None or reading is None or generation.stop_reason is not StopReason.STOP_TOKEN:
        raise UnfinishedAnswer(kind.__name__, generation)
    return kind.model_validate_json(reading.read(generation.text).content)
