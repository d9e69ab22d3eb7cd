"""What a scheduler reports of a request, as it happens."""

from collections.abc import Callable
from dataclasses import dataclass

from rase_core.answer import Generation
from rase_core.logprobs import TokenLogprobs


@dataclass(frozen=True, slots=True)
class Piece:
    """One more token of a choice (0 to n - 1) and the text that became certain; see TokenEvent."""

    choice: int
    token: int | None
    text: str
    logprobs: tuple[TokenLogprobs, ...] = ()


@dataclass(frozen=True, slots=True)
class Ended:
    """A choice is finished."""

    choice: int
    generation: Generation


@dataclass(frozen=True, slots=True)
class Failed:
    """The request failed; nothing more comes of any choice."""

    error: Exception


Event = Piece | Ended | Failed
OnEvent = Callable[[Event], bool | None]
