"""A model in memory: its decoder, tokenizer and template, and whose turn it is."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rase_core.errors import Cancelled, TemplateError
from rase_core.manifest import ModelManifest

from rase_models.chat import ChatTemplate
from rase_models.decoder import ProgramDecoder
from rase_models.tokenizers import Tokenizer

_POLL_SECONDS = 0.05

IsCancelled = Callable[[], bool]


class GivenUp(Cancelled):
    """The caller gave up before the first token."""


class Session:
    """A loaded model. The decoder belongs to one thread at a time, the other parts to all of them.

    It stays in memory while somebody has entered it. `retire` lets the last one to leave close the decoder.
    """

    def __init__(
        self,
        manifest: ModelManifest,
        device: str,
        decoder: ProgramDecoder,
        tokenizer: Tokenizer,
        template: ChatTemplate | TemplateError,
    ) -> None:
        self.manifest = manifest
        self.device = device
        self.decoder = decoder
        self.tokenizer = tokenizer
        self.lock = threading.Lock()
        self._template = template
        self._state = threading.Lock()
        self._users = 0
        self._is_retired = False

    @property
    def template(self) -> ChatTemplate:
        """The chat template; TemplateError says why there is none."""
        if isinstance(self._template, TemplateError):
            raise self._template
        return self._template

    @contextmanager
    def turn(self, cancelled: IsCancelled | None = None) -> Iterator[ProgramDecoder]:
        """Wait for the decoder and hold it; raises GivenUp when `cancelled` says so meanwhile."""
        while not self.lock.acquire(timeout=_POLL_SECONDS):
            if cancelled is not None and cancelled():
                raise GivenUp
        try:
            yield self.decoder
        finally:
            self.lock.release()

    def enter(self) -> bool:
        """Keep the session in memory until `leave`; False when it is gone already."""
        with self._state:
            if self._is_retired:
                return False
            self._users += 1
            return True

    def leave(self) -> None:
        """End what `enter` began."""
        with self._state:
            self._users -= 1
            is_last = self._is_retired and not self._users
        if is_last:
            self.decoder.close()

    def retire(self) -> None:
        """Free the memory as soon as nobody uses the session any more; nobody can enter it from now on."""
        with self._state:
            is_last = not self._is_retired and not self._users
            self._is_retired = True
        if is_last:
            self.decoder.close()
