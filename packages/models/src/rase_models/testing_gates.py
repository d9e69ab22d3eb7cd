"""What holds a model's work up until it is let go on, for tests of what happens meanwhile."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from rase_core.progress import ProgressEvent, ProgressPhase
from rase_core.scheduler import GenerationRequest

from rase_models.request import Completion
from rase_models.session import Session

_PATIENCE_SECONDS = 60


class LoadGate:
    """A Progress that holds loads of files of this name until `open`, and counts those that are done."""

    def __init__(self, name: str = "") -> None:
        self.is_reached = threading.Event()
        self.loads = 0
        self._name, self._open = name, threading.Event()

    def __call__(self, event: ProgressEvent) -> None:
        """Wait, in a load; AssertionError when that takes too long."""
        if event.phase is ProgressPhase.LOAD and self._name in event.file:
            self.is_reached.set()
            assert self._open.wait(_PATIENCE_SECONDS), "nobody opened the gate"
            self.loads += event.done == event.total

    def open(self) -> None:
        """Let them go on, and all that come."""
        self._open.set()

    def shut(self) -> None:
        """Hold those that come from now on."""
        self._open.clear()
        self.is_reached.clear()


@dataclass(frozen=True)
class SlowCompletion(Completion):
    """A question of which something happens while its prompt is prepared."""

    meanwhile: Callable[[], object] = lambda: None

    def request(self, session: Session) -> GenerationRequest:
        """Return the request to a model."""
        self.meanwhile()
        return Completion.request(self, session)
