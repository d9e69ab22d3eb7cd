"""What happened to one request, as far as the log and the metrics want to know."""

import re
import uuid
from dataclasses import dataclass, field
from enum import StrEnum
from time import perf_counter

from rase_core.errors import Cancelled, RequestTimeout
from rase_core.generation import Generation
from starlette.requests import HTTPConnection
from starlette.types import Scope

from rase_api.faults import fault_of

KEY = "rase.record"
ID_HEADER = "x-request-id"
ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")


class Outcome(StrEnum):
    """How a request ended."""

    OK = "ok"
    CLIENT_ERROR = "client_error"
    SERVER_ERROR = "server_error"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"


@dataclass(slots=True)
class Record:
    """A request under way. Times are seconds; `status` is 0 until a response has begun."""

    id: str
    method: str
    path: str
    route: str
    started: float = field(default_factory=perf_counter)
    status: int = 0
    model: str | None = None
    is_streamed: bool = False
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    first_text: float | None = None
    queued: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    seconds: float = 0.0
    is_abandoned: bool = False
    error: str | None = None
    _failed: Outcome | None = None
    _seen: dict[int, float] = field(default_factory=dict)

    @classmethod
    def begin(cls, scope: Scope, route: str) -> "Record":
        """Begin the record of a request and leave it where `record_of` finds it; a fit id is kept."""
        connection = HTTPConnection(scope)
        given = connection.headers.get(ID_HEADER, "")
        identity = given if ID.fullmatch(given) else uuid.uuid4().hex
        record = cls(identity, str(scope["method"]), str(scope["path"]), route)
        scope[KEY] = record
        return record

    def count(self, generation: Generation, *, with_prompt: bool = True) -> None:
        """Add the tokens of a finished choice; of several, only one counts their prompt.

        What ended without being computed at all was in line for nothing, and has no time of that.
        """
        if with_prompt:
            self.prompt_tokens += generation.prompt_tokens
            self.cached_tokens += generation.cached_tokens
            self.queued += [generation.queued_seconds] * generation.is_started
        self.completion_tokens += len(generation.tokens)

    def see_text(self, choice: int) -> None:
        """Note when a piece of a choice comes: the first of all, or how long after the one before."""
        now = perf_counter()
        before = self._seen.get(choice)
        if before is not None:
            self.gaps.append(now - before)
        elif self.first_text is None:
            self.first_text = now - self.started
        self._seen[choice] = now

    def fail(self, error: BaseException) -> None:
        """Note what went wrong; not the error itself, in whose frames the whole request is."""
        self.error, self._failed = type(error).__name__, _outcome_of(error)

    def end(self) -> None:
        """Note how long it took."""
        self.seconds = perf_counter() - self.started

    @property
    def outcome(self) -> Outcome:
        """How it ended, whatever the status that had gone out by then."""
        if self.is_abandoned and self._failed is not Outcome.TIMEOUT:
            return Outcome.CANCELLED
        return self._failed or _outcome_of_status(self.status)


def _outcome_of(error: BaseException) -> Outcome:
    if isinstance(error, RequestTimeout):
        return Outcome.TIMEOUT
    return Outcome.CANCELLED if isinstance(error, Cancelled) else _outcome_of_status(fault_of(error).status)


def _outcome_of_status(status: int) -> Outcome:
    if status >= 500:
        return Outcome.SERVER_ERROR
    return Outcome.CLIENT_ERROR if status >= 400 else Outcome.OK


def record_of(scope: Scope) -> Record:
    """Return the record of a request that a Route handles."""
    record = scope[KEY]
    if not isinstance(record, Record):
        raise TypeError(f"{KEY} is a {type(record).__name__}")
    return record
