"""The models in memory: each loaded and verified once, however many threads ask for it."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from rase_core.deadline import Deadline
from rase_core.fork_safe import ForkSafeLock
from rase_core.manifest import ModelManifest
from rase_core.progress import Progress
from rase_core.registry import ModelRegistry

from rase_models.device_check import choose_device, may_fall_back
from rase_models.expiry import Expiry
from rase_models.model_load import ModelLoad
from rase_models.profile import Profile
from rase_models.room import PATIENCE_SECONDS, Check, Room, nothing_against
from rase_models.session import Session
from rase_models.session_loader import SessionLoader


class _Key(NamedTuple):
    store: Path
    model_id: str
    device: str
    may_fall_back: bool


class SessionCache:
    """Sessions by store, model and device. Thread-safe.

    One stays until it is cleared, was idle for `keep_alive` seconds (None: for ever), or until another needs
    its memory, where the loader has a limit of that; never while it is used: `patience` is how many seconds
    the other one waits for that. `loader` is for reading.
    """

    def __init__(
        self,
        loader: SessionLoader | None = None,
        keep_alive: float | None = None,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self.loader = loader or SessionLoader()
        self._keep_alive = keep_alive
        self._loads: dict[_Key, ModelLoad] = {}
        self._mutex = ForkSafeLock()
        self._expiry = Expiry(self._expire)
        self._room = Room(self.loader.max_memory, self._evict, patience)
        self.profile = Profile()

    def begin(
        self, registry: ModelRegistry, model_id: str, device: str, check: Check = nothing_against
    ) -> ModelLoad:
        """Return the load of a registered model, begun unless it is in memory or on its way.

        One that failed, and a session that is broken, or whose manifest has changed since in anything but its
        defaults, is replaced. Raises what ModelRegistry.get raises, and `check`, which decides as of a moment
        that is either before `clear` or after it.
        """
        model_id = registry.resolve(model_id)
        key = _Key(registry.store, model_id, choose_device(device), may_fall_back(device))
        while True:
            with self._mutex:
                check()
                known = self._loads.get(key)
            manifest = registry.get(model_id)  # now, so that it is at least as new as what is loaded
            if known is not None and _serves(known, manifest):
                return known
            load = self._replace(key, known, manifest, check)
            if load is not None:
                return load

    def get_or_load(
        self,
        registry: ModelRegistry,
        model_id: str,
        device: str,
        deadline: Deadline | None = None,
        check: Check = nothing_against,
    ) -> Session:
        """Return the session of a registered model, loading and verifying it if it is not in memory.

        Threads that ask for a model while it is loaded wait for that load, and get its error if it fails; the
        next one to ask tries again. Raises what `begin` and SessionLoader.load raise, RequestTimeout,
        ModelTooLarge and MemoryTaken where there is not enough memory, and ShuttingDown when the cache is
        cleared with a grace meanwhile.
        """
        deadline = deadline or Deadline()
        load = self.begin(registry, model_id, device, check)
        try:
            while load.session is None:
                load.wait(deadline, check)
                load.future.result()
                load = self.begin(registry, model_id, device, check)  # it may be for an older manifest
            session = load.session
            session.touch()
            self._expiry.watch(session)
            return session
        finally:
            del load  # its error would keep itself alive

    @contextmanager
    def lease(
        self,
        registry: ModelRegistry,
        model_id: str,
        device: str,
        deadline: Deadline | None = None,
        check: Check = nothing_against,
    ) -> Iterator[Session]:
        """Give the session, which stays in memory meanwhile; raises what `get_or_load` raises."""
        session = self.get_or_load(registry, model_id, device, deadline, check)
        while not session.enter():
            session = self.get_or_load(registry, model_id, device, deadline, check)
        try:
            yield session
        finally:
            session.leave()

    def sessions(self, store: Path | None = None) -> list[Session]:
        """Return the sessions in memory, of all stores or one."""
        with self._mutex:
            loads = [load for key, load in self._loads.items() if store in (None, key.store)]
        return [session for load in loads if (session := load.session) is not None]

    def keep(self, store: Path, model_id: str, seconds: float | None) -> None:
        """Let a model stay so long after it was used last, from now on; None for ever."""
        with self._mutex:
            loads = [load for k, load in self._loads.items() if (k.store, k.model_id) == (store, model_id)]
        for session in (load.session for load in loads):
            if session is not None:
                session.keep_alive = seconds
                self._expiry.watch(session)

    def clear(
        self, store: Path | None = None, model_id: str | None = None, *, grace: float | None = None
    ) -> None:
        """Let go of all models, or those of a store or an id.

        One in use goes when its last user is done, and one on its way when it is there; who waits for that
        one begins another load. With a `grace` the
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
            stack.callback(self._expiry.look)
            for load in loads:
                stack.callback(load.retire)

    def _replace(
        self, key: _Key, known: ModelLoad | None, manifest: ModelManifest, check: Check
    ) -> ModelLoad | None:
        """Begin a load in place of the known one.

        None when another thread has replaced that since, perhaps for a newer manifest.
        """
        load = ModelLoad()
        with self._mutex:
            check()
            if self._loads.get(key) is not known:
                return None
            load.start(partial(self._load, key, load, known, manifest), self.loader.progress)
            self._loads[key] = load
        return load

    def _load(
        self, key: _Key, load: ModelLoad, known: ModelLoad | None, manifest: ModelManifest, progress: Progress
    ) -> Session:
        try:
            if known is not None:
                known.retire()
            loader = replace(self.loader, progress=progress)
            session = self._load_within(loader, manifest, key, load.check_wanted)
            session.keep_alive, session.on_idle = self._keep_alive, _when_idle(self._expiry, self._room)
            self._expiry.watch(session)  # whoever asked for it may have gone
            return session
        except BaseException:
            with self._mutex:
                if self._loads.get(key) is load:
                    del self._loads[key]
            raise

    def _load_within(
        self, loader: SessionLoader, manifest: ModelManifest, key: _Key, check: Check
    ) -> Session:
        """Load a model once it has room."""
        load = partial(loader.load, manifest, key.device, may_fall_back=key.may_fall_back)
        if self._room.limit is None:
            return load()
        place = self._room.place(manifest.id)
        try:
            session = load(room=place.fit, check=check)
        except BaseException:
            place.release()
            raise
        place.settle(session)
        return session

    def _evict(self, session: Session) -> bool:
        """Let go of a session that nobody uses, and say whether that is so."""
        if not session.retire_if_idle():
            return False
        with self._mutex:
            for key in [key for key, load in self._loads.items() if load.session is session]:
                del self._loads[key]
        return True

    def _expire(self, session: Session) -> bool:
        return session.expires_in == 0 and self._evict(session)


def _when_idle(expiry: Expiry, room: Room) -> Callable[[Session], None]:
    """Return what a session does that nobody uses any more; it keeps no cache."""

    def tell(session: Session) -> None:
        expiry.watch(session)
        room.look()

    return tell


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
    if session.is_broken or session.is_retired or _substance(session.manifest) != _substance(manifest):
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
