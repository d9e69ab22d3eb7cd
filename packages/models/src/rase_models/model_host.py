"""The registered models in memory: which are there, where, how long they stay, how much they take."""

from concurrent.futures import Future
from pathlib import Path
from types import NoneType
from typing import Self

from rase_core.arguments import (
    CALLBACK,
    MAYBE_PATH,
    MAYBE_TEXT,
    PATIENCE,
    SECONDS,
    TEXT,
    Kinds,
    check_arguments,
    instance,
    whole,
)
from rase_core.device import ProbeReport
from rase_core.progress import Progress
from rase_core.scheduler import SchedulerLimits

from rase_models.backends.base import ThreadCounts, Threads
from rase_models.device_check import accelerator, choose_device, probe_devices
from rase_models.gpu_layers import device_for
from rase_models.kv_type import KvType
from rase_models.lost_devices import CPU, LOST_DEVICES
from rase_models.memory_plan import MemoryPlan
from rase_models.model_store import ModelStore
from rase_models.room import Check, nothing_against
from rase_models.session import Session
from rase_models.session_cache import SessionCache
from rase_models.session_loader import SessionLoader, registered_template

_ACTIVE = "active: "
_BYTES = whole(0, "bytes")
_KINDS: Kinds = {
    "store": MAYBE_PATH,
    "device": TEXT,
    "threads": instance("a number, ThreadCounts or None", int, ThreadCounts, NoneType),
    "context_length": whole(1, "tokens"),
    "kv_memory": _BYTES,
    "keep_alive": SECONDS,
    "seconds": SECONDS,
    "grace": PATIENCE,
    "max_memory": _BYTES,
    "kv_type": MAYBE_TEXT,
    "gpu_layers": instance("-1 for all layers, 0 for none, or None", int, NoneType),
    "limits": instance("SchedulerLimits or None", SchedulerLimits, NoneType),
    "progress": CALLBACK,
    "cache": instance("a SessionCache or None", SessionCache, NoneType),
}


class ModelHost(ModelStore):
    """A store whose models come into memory and are let go of. Thread-safe; the arguments are Engine's.

    Raises InvalidParameter for an argument of another type or out of its range.
    """

    def __init__(
        self,
        store: Path | str | None = None,
        device: str = "auto",
        threads: Threads = None,
        *,
        context_length: int | None = None,
        kv_memory: int | None = None,
        keep_alive: float | None = None,
        max_memory: int | None = None,
        kv_type: KvType | str | None = None,
        gpu_layers: int | None = None,
        limits: SchedulerLimits | None = None,
        progress: Progress | None = None,
        cache: SessionCache | None = None,
    ) -> None:
        check_arguments(
            _KINDS,
            store=store,
            device=device,
            threads=threads,
            context_length=context_length,
            kv_memory=kv_memory,
            keep_alive=keep_alive,
            max_memory=max_memory,
            kv_type=kv_type,
            gpu_layers=gpu_layers,
            limits=limits,
            progress=progress,
            cache=cache,
        )
        super().__init__(store, progress=progress)
        self._preference = device_for(device, gpu_layers)
        loader = SessionLoader(
            threads=threads,
            context_length=context_length,
            progress=progress,
            kv_memory=kv_memory,
            max_memory=max_memory,
            kv_type=kv_type,
            gpu_layers=gpu_layers,
            limits=limits or SchedulerLimits(),
        )
        self._cache = cache if cache is not None else SessionCache(loader, keep_alive)
        self._loader = self._cache.loader

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def device(self) -> str:
        """The backend that computes: the CPU's once the chosen one was lost. Raises BackendUnavailable."""
        return LOST_DEVICES.usable(choose_device(self._preference))

    @property
    def kv_type(self) -> str | None:
        """In which keys and values are kept; None for the device's own choice."""
        return None if self._loader.kv_type is None else str(self._loader.kv_type)

    def probe(self, device: str = "auto") -> ProbeReport:
        """Try the devices that a name stands for, best first, with a real computation each."""
        return probe_devices(device)

    def gpu_info(self) -> str:
        """Tell which accelerator computes: `active: ` and its name, else why none does.

        That is `fallback: ` where the CPU computes in its place, for the engine or for a model in memory, and
        `inactive: ` where none was asked for.
        """
        sessions = [session for session in self.loaded_models() if session.fallback is not None]
        reasons = "; ".join(f"{session.manifest.id}: {session.fallback}" for session in sessions)
        if reasons:
            return f"fallback: {reasons}"
        told = accelerator(self._preference)
        if told.startswith(_ACTIVE) and self.device == CPU:  # that was chosen when there was a hindrance
            return f"fallback: {told.removeprefix(_ACTIVE)}: was of no use before, start the program again"
        return told

    def remove(self, model_id: str) -> None:
        """Forget a model and let go of its memory; its files stay. Raises ModelNotFound."""
        super().remove(model_id)
        self.unload(model_id)

    def load(self, model_id: str, *, check: Check = nothing_against) -> Session:
        """Bring a model into memory; see SessionCache.get_or_load for what it raises.

        `check` may raise, also while the load is waited for: to end what was asked before `close` and comes
        after it, or what nobody waits for any more. The load goes on.
        """
        return self._cache.get_or_load(self._registry, model_id, self._preference, check=check)

    def loading(self, model_id: str, *, check: Check = nothing_against) -> Future[Session]:
        """Begin to bring a model into memory, and return what has it then; it cannot be cancelled.

        Raises what ModelRegistry.get, `device` and `check` raise; the rest is raised by the future.
        """
        return self._cache.begin(self._registry, model_id, self._preference, check).future

    def loaded_models(self) -> list[Session]:
        """Return the models of this store that are in memory, by id."""
        sessions = self._cache.sessions(self.store)
        return sorted(sessions, key=lambda session: session.manifest.id)

    def load_counts(self) -> dict[str, int]:
        """Return how often each model was loaded, by id."""
        return dict(self._loader.loads)

    def unload(self, model_id: str | None = None) -> None:
        """Let go of a model's memory, or all models'; one that is in use goes when its last user is done."""
        self._cache.clear(self.store, None if model_id is None else self._registry.resolve(model_id))

    def keep(self, model_id: str, seconds: float | None) -> None:
        """Let a model that is in memory stay for so long after it was used last; None for ever.

        Raises InvalidParameter for what is no number of seconds; nothing changes then.
        """
        check_arguments(_KINDS, seconds=seconds)
        self._cache.keep(self.store, self._registry.resolve(model_id), seconds)

    def estimate(self, model_id: str) -> MemoryPlan:
        """Return how much memory a model would take, reading no more than the header of its file.

        Raises ModelNotFound, and what SessionLoader.plan raises.
        """
        return self._loader.plan(self._registry.get(model_id), self.device)

    def chat_template(self, model_id: str) -> str:
        """Return the text of a model's chat template, reading no more than the header of its file.

        Raises ModelNotFound, TemplateError for a model without one, and what reading a file raises.
        """
        return registered_template(self._registry.get(model_id)).source

    def close(self, grace: float | None = None) -> None:
        """Let go of all memory; the engine can be used again.

        Requests under way are finished, by themselves. With a `grace` they are waited for, and those that are
        not finished within so many seconds fail with ShuttingDown, as do at once those whose prompt is still
        being prepared, or whose model is still being loaded; that is ended, too.
        """
        check_grace(grace)
        self._cache.clear(self.store, grace=grace)


def check_grace(grace: object) -> None:
    """Raise InvalidParameter for what is no time that `close` may take."""
    check_arguments(_KINDS, grace=grace)
