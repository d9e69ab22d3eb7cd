"""What a machine cannot do, or fails at."""

from collections.abc import Iterable
from pathlib import Path

from rase_core.errors.engine_error import EngineError
from rase_core.sizes import size_text


class BackendUnavailable(EngineError):
    """A device cannot be used here: what was tried, whether its libraries are there, and what to do."""

    def __init__(
        self, backend: str, reason: str, advice: str | None = None, *, is_installed: bool = True
    ) -> None:
        super().__init__(f"the {backend} backend is unavailable: {reason}", advice)
        self.backend, self.reason, self.is_installed = backend, reason, is_installed


class ModelTooLarge(EngineError):
    """A model needs more memory, in bytes, than all models may take together; `parts` says what for."""

    def __init__(self, model_id: str, needed: int, limit: int, parts: str) -> None:
        super().__init__(
            f"model {model_id!r} needs {size_text(needed)} of memory ({parts}), more than the "
            f"{size_text(limit)} that models may take",
            "allow models more memory (--max-memory), or give this one a shorter context (--context-length)",
        )
        self.model_id, self.needed, self.limit = model_id, needed, limit


class MemoryTaken(EngineError):
    """A model has no room beside those that are in use; sizes are in bytes.

    A user of the model's own name is what was unloaded while it answered, and goes on with that.
    """

    def __init__(self, model_id: str, needed: int, limit: int, users: Iterable[str]) -> None:
        self.users = tuple(users)
        super().__init__(
            f"model {model_id!r} needs {size_text(needed)} of the {size_text(limit)} of memory that "
            f"models may take, and these are in use: {self._named(model_id)}",
            "try again later, or allow models more memory (--max-memory)",
        )
        self.model_id, self.needed, self.limit = model_id, needed, limit

    def _named(self, model_id: str) -> str:
        former = f"{model_id} (its former copy, which was unloaded and still answers requests)"
        return ", ".join(former if user == model_id else user for user in self.users)


class TooManyOpenFiles(EngineError):
    """This process, or all together, may open no more files: which one was to be opened, if that is known."""

    def __init__(self, path: Path | None = None) -> None:
        where = "" if path is None else f"{path}: "
        super().__init__(
            f"{where}no more files can be opened for now: too many are open",
            "try again later, have fewer connections at once, or allow more open files (`ulimit -n`)",
        )
        self.path = path


class BackendFailure(EngineError):
    """A backend failed while it computed."""


class DeviceOutOfMemory(BackendFailure):
    """A device has no room for what was to be put on it."""

    def __init__(self, device: str, detail: str) -> None:
        super().__init__(
            f"the {device} device is out of memory: {detail}",
            "choose a smaller model or --device cpu, register it with a shorter context (`rase model import "
            "PATH --id ID --context-length TOKENS`), or serve it with less: `rase serve --kv-memory SIZE`",
        )
        self.device, self.detail = device, detail


class DeviceLost(BackendFailure):
    """A device is gone with all that was on it, and does not come back while this process lasts."""

    def __init__(self, device: str, detail: str) -> None:
        super().__init__(
            f"the {device} device was lost: {detail}",
            "run nvidia-smi, which says whether the GPU works, and start the program again to use it",
        )
        self.device, self.detail = device, detail


class InvalidLogits(BackendFailure):
    """Logits hold a NaN or an infinity, so no token can be chosen."""

    def __init__(self, position: int, count: int) -> None:
        super().__init__(
            f"{count} logits at position {position} are not finite",
            "the weights may be damaged: run `rase model verify`",
        )
        self.position, self.count = position, count
