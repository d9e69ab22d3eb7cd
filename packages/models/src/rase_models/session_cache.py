"""The models in memory: each loaded and verified once, however many threads ask for it."""

import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rase_core.errors import EngineError
from rase_core.manifest import ModelManifest
from rase_core.registry import ModelRegistry

from rase_models.device_check import choose_device
from rase_models.profile import Profile
from rase_models.session import Session
from rase_models.session_loader import SessionLoader

_Load = Future[Session | None]


class _Key(NamedTuple):
    store: Path
    model_id: str
    device: str


class SessionCache:
    """Sessions by store, model and device. Thread-safe."""

    def __init__(self, loader: SessionLoader | None = None) -> None:
        self._loader = loader or SessionLoader()
        self._loads: dict[_Key, _Load] = {}
        self._mutex = threading.Lock()
        self.profile = Profile()

    def get_or_load(self, registry: ModelRegistry, model_id: str, device: str) -> Session:
        """Return the session of a registered model, loading and verifying it if it is not in memory.

        Threads that ask for a model while it is loaded wait for that load, and get its error if it fails; the
        next one to ask tries again. A session that is broken, or whose manifest has changed since in anything
        but its defaults, is replaced. Raises what ModelRegistry.get and SessionLoader.load raise.
        """
        device = choose_device(device)
        key = _Key(registry.store, model_id, device)
        while True:
            with self._mutex:
                known = self._loads.get(key)
            manifest = registry.get(model_id)  # now, so that it is at least as new as what is loaded
            load = self._wait(key, manifest, known)
            session = load.result() if load is not None else None
            if session is not None and _is_current(session, manifest):
                session.manifest = manifest  # its defaults may be newer
                return session

    @contextmanager
    def lease(self, registry: ModelRegistry, model_id: str, device: str) -> Iterator[Session]:
        """Give the session, which stays in memory meanwhile; raises what `get_or_load` raises."""
        session = self.get_or_load(registry, model_id, device)
        while not session.enter():
            session = self.get_or_load(registry, model_id, device)
        try:
            yield session
        finally:
            session.leave()

    def sessions(self, store: Path | None = None) -> list[Session]:
        """Return the sessions in memory, of all stores or one."""
        with self._mutex:
            loads = [load for key, load in self._loads.items() if store in (None, key.store)]
        return [session for load in loads if (session := _loaded(load)) is not None]

    def clear(
        self, store: Path | None = None, model_id: str | None = None, *, grace: float | None = None
    ) -> None:
        """Let go of all models, or those of a store or an id.

        One in use goes when its last user is done, or, with a `grace`, when the requests under way are
        finished or so many seconds are over; that is waited for.
        """
        with self._mutex:
            keys = [k for k in self._loads if store in (None, k.store) and model_id in (None, k.model_id)]
            loads = [self._loads.pop(key) for key in keys]
        for load in loads:
            load.add_done_callback(_retire)
        if grace is not None:
            _finish([session for load in loads if (session := _loaded(load)) is not None], grace)

    def _wait(self, key: _Key, manifest: ModelManifest, known: _Load | None) -> _Load | None:
        """Return the load to wait for, after running it if it is this thread's to run.

        None when another thread has replaced the `known` one since, perhaps for a newer manifest.
        """
        session = _loaded(known) if known is not None else None
        if known is not None and (not known.done() or (session and _is_current(session, manifest))):
            return known
        load: _Load = Future()
        with self._mutex:
            if self._loads.get(key) is not known:
                return None
            self._loads[key] = load
        if session is not None:
            session.retire()
        self._run(key, load, manifest)
        return load

    def _run(self, key: _Key, load: _Load, manifest: ModelManifest) -> None:
        try:
            load.set_result(self._loader.load(manifest, key.device))
        except EngineError as error:
            self._forget(key, load)
            load.set_exception(error)
        except BaseException:
            self._forget(key, load)
            load.set_result(None)  # an interrupt is the business of this thread alone: let another one load
            raise

    def _forget(self, key: _Key, load: _Load) -> None:
        with self._mutex:
            if self._loads.get(key) is load:
                del self._loads[key]


def _loaded(load: _Load) -> Session | None:
    return load.result() if load.done() and load.exception() is None else None


def _retire(load: _Load) -> None:
    session = _loaded(load)
    if session is not None:
        session.retire()


def _finish(sessions: Iterable[Session], grace: float) -> None:
    end = time.monotonic() + grace
    for session in sessions:
        session.finish(max(end - time.monotonic(), 0.0))


def _is_current(session: Session, manifest: ModelManifest) -> bool:
    return not session.is_broken and _substance(session.manifest) == _substance(manifest)


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
