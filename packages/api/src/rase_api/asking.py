"""The questions of one request on their way to the engine, and what comes of them."""

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from rase_core.errors import Cancelled
from rase_core.generation import Generation, StopReason
from rase_core.logprobs import TokenLogprobs
from rase_core.scheduler import Ended, OnEvent, Piece
from rase_core.scheduler import Event as AnswerEvent
from rase_core.scheduler import Failed as AnswerFailed
from rase_core.tracebacks import caught, without_locals
from rase_models.chat.parts import ArgumentPiece, Content, Part, PartReader, Reasoning, ToolCall
from rase_models.chat.reply import Reading, Reply
from rase_models.room import Check

from rase_api.serving import Submitted

MOST_AT_ONCE = 16
"""Questions of one request that are under way, or whose answers wait to be taken: one of many prompts leaves
room for others, and has no more in memory than that where a client reads more slowly than it is answered."""

_POLL_SECONDS = 0.1

Told = tuple[TokenLogprobs, ...]
Prepare = Callable[[Check], object]


@dataclass(frozen=True, slots=True)
class Ask:
    """A question: the number of its first choice, how many it has, and the call that asks it.

    `prompt_tokens` is for APIs that tell them before the first text; `reading` for those that tell the
    parts of an answer apart; `echo` is a text that each answer begins with.
    """

    first: int
    choices: int
    submit: Callable[[OnEvent], Submitted]
    prompt_tokens: int | None = None
    reading: Reading | None = None
    echo: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """So many more choices are on their way."""

    choices: int


@dataclass(frozen=True, slots=True)
class AllAsked:
    """There are no more questions."""


@dataclass(frozen=True, slots=True)
class Started:
    """The beginning of a choice whose prompt was counted."""

    index: int
    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of text of a choice, what is told of the tokens that it came with, and their number so far."""

    index: int
    text: str
    told: Told = ()
    count: int = 0


@dataclass(frozen=True, slots=True)
class Thought:
    """A piece of what the model thought for a choice."""

    index: int
    text: str
    told: Told = ()


@dataclass(frozen=True, slots=True)
class Called:
    """A call of a tool in a choice, with what is known of its arguments."""

    index: int
    call: ToolCall
    told: Told = ()


@dataclass(frozen=True, slots=True)
class Argued:
    """More of the arguments of the call of a choice that came last."""

    index: int
    piece: ArgumentPiece
    told: Told = ()


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of a choice; `is_first` is the one of its prompt's choices that stands for the prompt."""

    index: int
    generation: Generation
    reply: Reply
    is_first: bool = True
    told: Told = ()


@dataclass(frozen=True, slots=True)
class Failed:
    """What ended the work before its time."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Answered:
    """All choices of a question have ended."""


Step = Asked | AllAsked | Started | Text | Thought | Called | Argued | Finished | Answered | Failed


class Asking:
    """Asks the questions of one request, and tells from any thread what happens, until `stop`.

    What they have to wait for comes first: `prepare`, which is given what raises when nobody waits any more.
    """

    def __init__(
        self, asks: Iterable[Ask], tell: Callable[[Step], None], prepare: Prepare = lambda check: None
    ) -> None:
        self._asks, self._tell, self._prepare = asks, tell, prepare
        self._stop = threading.Event()
        self._room = threading.Semaphore(MOST_AT_ONCE)
        self._under_way: list[Submitted] = []

    @property
    def is_stopped(self) -> bool:
        """Whether nobody waits for the answers any more."""
        return self._stop.is_set()

    def run(self) -> None:
        """Ask, in a thread that may wait; it is free again while the answers are made."""
        try:
            self._prepare(self._check_wanted)
            for ask in self._asks:
                if not self._has_room():
                    return
                self._submit(ask)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the response says so
            self._tell(Failed(caught(without_locals(error))))  # which have the whole request
        else:
            self._tell(AllAsked())

    def make_room(self) -> None:
        """Let another question be asked: one that was Answered has been taken."""
        self._room.release()

    def stop(self) -> None:
        """End the answers within a step, and ask nothing more."""
        self._stop.set()
        for submitted in [*self._under_way]:
            submitted.cancel()
        self._asks, self._tell = (), _ignore  # nobody hears of them, and they keep all of the request

    def _check_wanted(self) -> None:
        if self.is_stopped:
            raise Cancelled

    def _has_room(self) -> bool:
        while not self._room.acquire(timeout=_POLL_SECONDS):
            if self.is_stopped:
                return False
        return not self.is_stopped

    def _submit(self, ask: Ask) -> None:
        self._tell(Asked(ask.choices))
        submitted = ask.submit(self._listener(ask))
        self._under_way.append(submitted)
        if self.is_stopped:
            submitted.cancel()

    def _listener(self, ask: Ask) -> OnEvent:
        opening, steps, left = _opening(ask), _Steps(ask), ask.choices

        def tell(event: AnswerEvent) -> None:
            nonlocal left
            for step in steps.of(event):
                for begun in opening:
                    self._tell(begun)
                self._tell(step)
            left -= isinstance(event, Ended)
            if not left:
                self._tell(Answered())

        def hear(event: AnswerEvent) -> bool:
            try:
                tell(event)
            except BaseException as error:
                self._tell(Failed(error))
                raise
            return not self.is_stopped

        return hear


def _ignore(step: Step) -> None:
    """Hear nothing more."""


def _opening(ask: Ask) -> Iterator[Started]:
    """Yield once that a question begins: with its first text, since its prompt may be refused until then."""
    if ask.prompt_tokens is not None:
        yield Started(ask.first, ask.prompt_tokens)


class _ThoughtTokens:
    """Counts the tokens of an answer whose text is thought, with those of the tag that begins it."""

    def __init__(self) -> None:
        self._count = self._since = 0

    def see(self, token: int | None, parts: Sequence[Part]) -> None:
        """Take one more token, and the parts that have come out with it and those before."""
        self._since += token is not None
        if parts:
            self._count += self._since if isinstance(parts[0], Reasoning) else 0
            self._since = 0

    def of(self, generation: Generation, reply: Reply) -> int:
        """Return their number; what was only seen to be thought at the end has its share of the text."""
        share = len(generation.tokens) * len(reply.reasoning) // len(generation.text)
        return self._count or max(share, 1)


class _Steps:
    """Turns what happens to a question into steps."""

    def __init__(self, ask: Ask) -> None:
        self._first, self._reading, self._echo = ask.first, ask.reading, ask.echo
        self._readers: dict[int, PartReader] = {}
        self._thoughts: defaultdict[int, _ThoughtTokens] = defaultdict(_ThoughtTokens)
        self._told: dict[int, Told] = {}
        self._counts: Counter[int] = Counter()
        self._echoed: set[int] = set()

    def of(self, event: AnswerEvent) -> Iterator[Step]:
        """Yield the steps of an event."""
        match event:
            case Piece(choice, token, text, told):
                self._told[choice] = self._told.get(choice, ()) + told
                yield from self._told_as(choice, self._seen(choice, token, self._parts(choice, text)))
            case Ended(_, Generation(stop_reason=StopReason.CANCELLED)):
                yield Failed(Cancelled("the generation was cancelled"))
            case Ended(choice, generation):
                yield from self._told_as(choice, self._seen(choice, None, self._rest(choice)))
                yield from self._begun(choice)
                yield self._finished(choice, generation)
            case AnswerFailed(error):
                yield Failed(error)

    def _seen(self, choice: int, token: int | None, parts: Sequence[Part]) -> Sequence[Part]:
        self._counts[choice] += token is not None
        if self._reading is not None:
            self._thoughts[choice].see(token, parts)
        return parts

    def _finished(self, choice: int, generation: Generation) -> Finished:
        reply, told = self._reply(generation), self._told.pop(choice, ())
        if reply.reasoning:
            count = self._thoughts[choice].of(generation, reply)
            generation = replace(generation, thought_tokens=count)
        return Finished(self._first + choice, generation, reply, choice == 0, told)

    def _parts(self, choice: int, text: str) -> Sequence[Part]:
        if not text:
            return ()
        reader = self._reader(choice)
        return (Content(text),) if reader is None else reader.push(text)

    def _rest(self, choice: int) -> Sequence[Part]:
        reader = self._reader(choice)
        return () if reader is None else reader.finish()

    def _reader(self, choice: int) -> PartReader | None:
        if self._reading is not None and choice not in self._readers:
            self._readers[choice] = self._reading.reader()
        return self._readers.get(choice)

    def _reply(self, generation: Generation) -> Reply:
        text = generation.text
        return Reply(self._echo + text) if self._reading is None else self._reading.read(text)

    def _begun(self, choice: int) -> Iterator[Step]:
        """Yield what a choice begins with, once."""
        if self._echo and choice not in self._echoed:
            self._echoed.add(choice)
            yield Text(self._first + choice, self._echo)

    def _told_as(self, choice: int, parts: Iterable[Part]) -> Iterator[Step]:
        index = self._first + choice
        for part in parts:
            yield from self._begun(choice)
            told = self._told.pop(choice, ())
            match part:
                case Content(text):
                    yield Text(index, text, told, self._counts[choice])
                case Reasoning(text):
                    yield Thought(index, text, told)
                case ToolCall():
                    yield Called(index, part, told)
                case ArgumentPiece():
                    yield Argued(index, part, told)
