"""The models in memory: each loaded and verified once, however many threads ask for it."""

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from rase_core.deadline import Deadline
from rase_core.manifest import ModelManifest
from rase_core.progress import Progress
from rase_core.registry import ModelRegistry

from rase_models.device_check import choose_device
from rase_models.model_load import ModelLoad
from rase_models.profile import Profile
from rase_models.session import Session
from rase_models.session_loader import SessionLoader


class _Key(NamedTuple):
    store: Path
    model_id: str
    device: str


class SessionCache:
    """Sessions by store, model and device. Thread-safe."""

    def __init__(self, loader: SessionLoader | None = None) -> None:
        self._loader = loader or SessionLoader()
        self._loads: dict[_Key, ModelLoad] = {}
        self._mutex = threading.Lock()
        self.profile = Profile()

    def begin(self, registry: ModelRegistry, model_id: str, device: str) -> ModelLoad:
        """Return the load of a registered model, begun unless it is in memory or on its way.

        One that failed, and a session that is broken, or whose manifest has changed since in anything but its
        defaults, is replaced. Raises what ModelRegistry.get raises.
        """
        key = _Key(registry.store, model_id, choose_device(device))
        while True:
            with self._mutex:
                known = self._loads.get(key)
            manifest = registry.get(model_id)  # now, so that it is at least as new as what is loaded
            if known is not None and _serves(known, manifest):
                return known
            load = self._replace(key, known, manifest)
            if load is not None:
                return load

    def get_or_load(
        self, registry: ModelRegistry, model_id: str, device: str, deadline: Deadline | None = None
    ) -> Session:
        """Return the session of a registered model, loading and verifying it if it is not in memory.

        Threads that ask for a model while it is loaded wait for that load, and get its error if it fails; the
        next one to ask tries again. Raises what `begin` and SessionLoader.load raise, RequestTimeout, and
        ShuttingDown when the cache is cleared with a grace meanwhile.
        """
        deadline = deadline or Deadline()
        load = self.begin(registry, model_id, device)
        try:
            while load.session is None:
                load.wait(deadline)
                load.future.result()
                load = self.begin(registry, model_id, device)  # it may be for an older manifest
            return load.session
        finally:
            del load  # its error would keep itself alive

    @contextmanager
    def lease(
        self, registry: ModelRegistry, model_id: str, device: str, deadline: Deadline | None = None
    ) -> Iterator[Session]:
        """Give the session, which stays in memory meanwhile; raises what `get_or_load` raises."""
        session = self.get_or_load(registry, model_id, device, deadline)
        while not session.enter():
            session = self.get_or_load(registry, model_id, device, deadline)
        try:
            yield session
        finally:
            session.leave()

    def sessions(self, store: Path | None = None) -> list[Session]:
        """Return the sessions in memory, of all stores or one."""
        with self._mutex:
            loads = [load for key, load in self._loads.items() if store in (None, key.store)]
        return [session for load in loads if (session := load.session) is not None]

    def clear(
        self, store: Path | None = None, model_id: str | None = None, *, grace: float | None = None
    ) -> None:
        """Let go of all models, or those of a store or an id.

        One in use goes when its last user is done, and one on its way when it is there. With a `grace` the
        requests under way have so many seconds, which are waited for, and everything else that is asked of
        these models fails with ShuttingDown.
        """
        with self._mutex:
            keys = [k for k in self._loads if store in (None, k.store) and model_id in (None, k.model_id)]
            loads = [self._loads.pop(key) for key in keys]
        with ExitStack() as stack:  # whatever goes wrong with one of them
            if grace is not None:
                _refuse(loads)
                stack.callback(_finish, loads, grace)
            for load in loads:
                stack.callback(load.retire)

    def _replace(self, key: _Key, known: ModelLoad | None, manifest: ModelManifest) -> ModelLoad | None:
        """Begin a load in place of the known one.

        None when another thread has replaced that since, perhaps for a newer manifest.
        """
        load = ModelLoad()
        with self._mutex:
            if self._loads.get(key) is not known:
                return None
            load.start(partial(self._load, key, load, known, manifest), self._loader.progress)
            self._loads[key] = load
        return load

    def _load(
        self, key: _Key, load: ModelLoad, known: ModelLoad | None, manifest: ModelManifest, progress: Progress
    ) -> Session:
        try:
            if known is not None:
                known.retire()
            return replace(self._loader, progress=progress).load(manifest, key.device)
        except BaseException:
            with self._mutex:
                if self._loads.get(key) is load:
                    del self._loads[key]
            raise


def _refuse(loads: Iterable[ModelLoad]) -> None:
    """Let what waits for these models, and what is being prepared, fail with ShuttingDown."""
    for load in loads:
        load.give_up()
        if load.session is not None:
            load.session.refuse()


def _finish(loads: Iterable[ModelLoad], grace: float) -> None:
    """Wait until requests under way are finished and loads have ended, at most so many seconds."""
    end = time.monotonic() + grace
    for load in loads:
        left = max(end - time.monotonic(), 0.0)
        session = load.session
        if session is None:
            load.join(left)
        else:
            session.finish(left)


def _serves(load: ModelLoad, manifest: ModelManifest) -> bool:
    """Whether there is a session for the manifest, which takes its defaults, or may soon be one."""
    session = load.session
    if session is None:
        return load.is_under_way
    if session.is_broken or _substance(session.manifest) != _substance(manifest):
        return False
    session.manifest = manifest
    return True


def _substance(manifest: ModelManifest) -> tuple[object, ...]:
    """Return what a session depends on."""
    return (
        manifest.weights,
        manifest.tokenizer,
        manifest.tokenizer_sha256,
        manifest.architecture,
        manifest.context_length,
        manifest.chat_template,
        manifest.template_file,
    )
