"""Models that are brought into memory when the server starts."""

import logging
import threading
from collections.abc import Callable, Sequence

from rase_core.tracebacks import caught

from rase_api.serving import ServingEngine

logger = logging.getLogger(__name__)


class Preloading:
    """Loads models one after another, in a thread; the first that fails ends it.

    Raises ModelNotFound for one that is not registered, before anything is loaded.

    Attributes:
        failure: what the first load failed with.
    """

    def __init__(self, engine: ServingEngine, models: Sequence[str]) -> None:
        self._engine = engine
        self._ids = [engine.inspect(model).id for model in models]
        self._is_done = not self._ids
        self.failure: BaseException | None = None

    @property
    def is_done(self) -> bool:
        """Whether all of them have been loaded."""
        return self._is_done

    def start(self, on_failure: Callable[[], None]) -> None:
        """Begin; a failure is told in the thread."""
        if not self._is_done:
            threading.Thread(target=self._run, args=(on_failure,), name="rase-preload", daemon=True).start()

    def _run(self, on_failure: Callable[[], None]) -> None:
        try:
            for model_id in self._ids:
                self._engine.load(model_id)
        except BaseException as error:  # noqa: BLE001 - it is raised where the server ends, a bug too
            self.failure = caught(error)
            on_failure()
            return
        self._is_done = True
        loaded = {model.manifest.id for model in self._engine.loaded_models()}
        if gone := [model_id for model_id in self._ids if model_id not in loaded]:
            logger.warning("not all preloaded models stay in memory: %s had to go", ", ".join(gone))
