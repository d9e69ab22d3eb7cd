"""A model in memory: its decoder, tokenizer and template, and the scheduler that serves its requests."""

import os
import weakref
from collections.abc import Callable
from time import monotonic

from rase_core.errors import BackendFailure, ShuttingDown, TemplateError
from rase_core.fork_safe import ForkSafeLock
from rase_core.generation import Generation
from rase_core.manifest import ModelManifest
from rase_core.scheduler import GenerationRequest, Handle, OnEvent, Scheduler, SchedulerLimits, Snapshot

from rase_models.chat import ChatTemplate
from rase_models.constraints import FormatCompiler
from rase_models.decoder import ProgramDecoder
from rase_models.memory_plan import MemoryPlan
from rase_models.standby import LoadSpare, Standby
from rase_models.tokenizers import Tokenizer

OnEnded = Callable[[Generation], None]

_LEAST_SECONDS = 1.0
"""How long a session stays at least that was asked for and not used yet."""


class Session:
    """A loaded model. The decoder belongs to the scheduler, the other parts to all threads.

    It stays in memory while somebody has entered it or waits for an answer. `retire` lets the last one to
    leave close the decoder. A session that is dropped, or that there is still when the process ends, fails
    the requests it has. The scheduler's thread starts with the first request.

    When its device is lost, what runs is computed again on the CPU by the decoder that `load_spare` gives.

    Attributes:
        computing: its decoder, on which device that is, and why on no other.
        layers: how many the model has.
        keep_alive: the seconds that it may stay idle; None for ever.
        on_idle: called with the session when nobody uses it any more, from any thread.
        on_gone: called when its memory is free again.
    """

    def __init__(
        self,
        manifest: ModelManifest,
        device: str,
        decoder: ProgramDecoder,
        tokenizer: Tokenizer,
        template: ChatTemplate | TemplateError,
        limits: SchedulerLimits | None = None,
        memory: MemoryPlan | None = None,
        fallback: str | None = None,
        layers: int = 1,
        load_spare: LoadSpare | None = None,
    ) -> None:
        self.manifest = manifest
        self.computing = Standby(decoder, device, fallback, load_spare, memory=memory)
        self.tokenizer = tokenizer
        self.formats = FormatCompiler(tokenizer)
        self.layers = layers
        self.keep_alive: float | None = None
        self.on_idle: Callable[[Session], None] = _ignore
        self.on_gone: Callable[[], None] = _do_nothing
        self._template = template
        self._limits = limits
        self._process = os.getpid()
        self._state = ForkSafeLock()
        self._users = 0
        self._idle_since, self._least = monotonic(), _LEAST_SECONDS
        self._is_open, self._is_retired = True, False
        self._scheduler: Scheduler | None = None

    @property
    def device(self) -> str:
        """Where it is computed."""
        return self.computing.device

    @property
    def fallback(self) -> str | None:
        """Why that is not the device that was asked for; None if it is."""
        return self.computing.fallback

    @property
    def memory(self) -> MemoryPlan | None:
        """What it was planned to take; None where nobody planned."""
        return self.computing.memory

    @property
    def decoder(self) -> ProgramDecoder:
        """What computes."""
        return self.computing.decoder

    @property
    def template(self) -> ChatTemplate:
        """The chat template; TemplateError says why there is none."""
        if isinstance(self._template, TemplateError):
            raise self._template
        return self._template

    @property
    def is_broken(self) -> bool:
        """Whether no request can be answered any more."""
        return self._scheduler is not None and self._scheduler.is_broken

    @property
    def is_retired(self) -> bool:
        """Whether nobody can enter it any more."""
        return self._is_retired

    @property
    def is_idle(self) -> bool:
        """Whether nobody uses it, and it may be let go of."""
        return not self._users and not self._is_retired

    @property
    def idle_since(self) -> float:
        """When it was used last, by `time.monotonic`; now, while somebody uses it."""
        return monotonic() if self._users else self._idle_since

    @property
    def expires_in(self) -> float | None:
        """The seconds until it may be let go of if nobody uses it any more; None for never."""
        if self.keep_alive is None:
            return None
        least = 0.0 if self._users else self._least
        return max(self.idle_since + max(self.keep_alive, least) - monotonic(), 0.0)

    def submit(
        self, request: GenerationRequest, on_event: OnEvent | None = None, on_ended: OnEnded | None = None
    ) -> Handle:
        """Stand a request in line, as Scheduler.submit does and with what it raises.

        `on_ended` hears of every choice that has ended, in the scheduler's thread. Raises ShuttingDown when
        the session is gone, and BackendFailure in a process that was forked since it was loaded.
        """
        leave = self._hold()

        def settle(generations: tuple[Generation, ...]) -> None:
            leave()
            if on_ended is not None:
                for generation in generations:
                    on_ended(generation)

        try:
            return self._serving().submit(request, on_event, settle)
        except BaseException:
            leave()
            raise

    def snapshot(self) -> Snapshot:
        """Return what the session's scheduler is doing and has done."""
        scheduler = self._scheduler
        if scheduler is None:
            return Snapshot(kv_capacity=self.decoder.kv_capacity)
        return scheduler.snapshot()

    def enter(self) -> bool:
        """Keep the session in memory until `leave`; False when it is gone already.

        Raises ShuttingDown after `refuse`.
        """
        with self._state:
            self._check_open()
            if self._is_retired:
                return False
            self._users += 1
            return True

    def leave(self) -> None:
        """End what `enter` began."""
        with self._state:
            self._users -= 1
            is_last, is_retired = not self._users, self._is_retired
            self._idle_since, self._least = monotonic(), 0.0
        if is_last and is_retired:
            self._end()
        elif is_last:
            self.on_idle(self)

    def retire(self) -> None:
        """Free the memory as soon as nobody uses the session any more; nobody can enter it from now on."""
        with self._state:
            is_last = not self._is_retired and not self._users
            self._is_retired = True
        if is_last:
            self._end()

    def touch(self) -> None:
        """Let it stay as if it was used now, and for a moment at least."""
        with self._state:
            self._idle_since, self._least = monotonic(), _LEAST_SECONDS

    def retire_if_idle(self) -> bool:
        """Free the memory if nobody uses the session, and say whether that is so."""
        with self._state:
            if not self.is_idle:
                return False
            self._is_retired = True
        self._end()
        return True

    def refuse(self) -> None:
        """Take no more requests: what is being prepared, or asks from now on, fails with ShuttingDown."""
        with self._state:
            self._is_open = False

    def finish(self, grace: float) -> None:
        """Take no more requests, and fail those that are not answered within so many seconds."""
        self.refuse()
        if self._scheduler is not None and os.getpid() == self._process:
            self._scheduler.close(grace)

    def _hold(self) -> Callable[[], None]:
        """Keep the session for a request; return what lets it go, once."""
        if os.getpid() != self._process:
            raise BackendFailure(
                "this model was loaded before the process was forked", "load models after the fork"
            )
        with self._state:
            self._check_open()
            if self._is_retired and not self._users:
                raise ShuttingDown
            self._users += 1
        return _Once(self.leave)

    def _serving(self) -> Scheduler:
        with self._state:
            self._check_open()
            if self._scheduler is None:
                close = _closing(self.computing, self.on_gone)
                self._scheduler = Scheduler(
                    self.decoder, self._limits, on_end=close, replace=self.computing.replace
                )
                weakref.finalize(self, _close, self._scheduler, self._process)
            return self._scheduler

    def _check_open(self) -> None:
        if not self._is_open:
            raise ShuttingDown

    def _end(self) -> None:
        """Close the decoder: by the thread that uses it, where there is one."""
        if self._scheduler is None or os.getpid() != self._process:
            _closing(self.computing, self.on_gone)()
        else:
            self._scheduler.close()


def _close(scheduler: Scheduler, process: int) -> None:
    """Close a scheduler in its own process; in a forked one a thread that is not there may hold its line."""
    if os.getpid() == process:
        scheduler.close()


def _closing(computing: Standby, on_gone: Callable[[], None]) -> Callable[[], None]:
    """Return what closes the decoder and says so, without keeping the session."""

    def close() -> None:
        try:
            computing.close()
        finally:
            on_gone()

    return close


def _ignore(session: Session) -> None:
    """Do nothing with it."""


def _do_nothing() -> None:
    """Do nothing."""


class _Once:
    """A call that happens at most once."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._calls = [call]

    def __call__(self) -> None:
        try:
            call = self._calls.pop()
        except IndexError:
            return
        call()
