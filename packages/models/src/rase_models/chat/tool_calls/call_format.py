"""How a family of models writes a call of a tool."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rase_models.chat.tool_calls.grammar import Symbol
from rase_models.chat.tool_calls.growth import Growth
from rase_models.chat.tool_calls.quotes import OpenText
from rase_models.chat.tool_calls.tool import Tool, Tools

_ANY = re.compile("(?s:.*)")


class MalformedCall(ValueError):
    """A text is no call."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call as a model has written it."""

    name: str
    arguments: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class CallFormat:
    """How calls stand in an answer.

    Attributes:
        name: of the family.
        begin, end: what stands around a call, or a list of them; without `begin` the whole answer is calls
            or none is, without `end` a call goes on to the next `begin` or the end of the answer.
        parse: makes calls of what is between; raises MalformedCall.
        write: what one call looks like between the two.
        opening, closing: what stands around all calls.
        is_list: whether all calls stand between one `begin` and `end`, as a list in brackets.
        starts: without `begin`, what an answer of calls starts with.
        inner: further markers within a call.
        offer: what an answer that may call looks like, `call` being a call, where markers do not tell.
        prelude: what comes before what is said, where that is not nothing.
        is_apart: whether arguments are written one by one, held to their own schemas alone.
        is_open: whether a call that lacks its end may lack arguments, too.
        ends: what texts that are written as they are have not in them, since it would end them or the call.
        keys: the names of arguments that can be written.
        open_text: what tells of texts in which nothing ends the call, where arguments are no JSON.
        growth: how calls begin that can be told while they are written; without it they come whole.
        tell: what one call of the history looks like between the two, for templates that leave calls out.
        id_length: of the ids that the family's templates take; 0 for any.
    """

    name: str
    begin: str
    end: str
    parse: Callable[[str, Tools], Sequence[Call]]
    write: Callable[[Tool], Sequence[Symbol]]
    opening: str = ""
    closing: str = ""
    is_list: bool = False
    starts: tuple[str, ...] = ()
    inner: tuple[str, ...] = ()
    offer: Sequence[Symbol] = ()
    prelude: Sequence[Symbol] = ()
    is_apart: bool = False
    is_open: bool = False
    ends: tuple[str, ...] = ()
    keys: "re.Pattern[str]" = _ANY
    open_text: Callable[[], OpenText] | None = None
    growth: Growth | None = None
    tell: Callable[[Call], str] | None = None
    id_length: int = 0

    @property
    def markers(self) -> tuple[str, ...]:
        """All that may be a token of its own."""
        return tuple(self._markers())

    def _markers(self) -> Iterator[str]:
        yield from (text for text in (self.opening, self.begin, self.end, self.closing) if text)
        yield from (*self.starts, *self.inner)
