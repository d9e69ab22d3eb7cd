"""What can be wrong with the model store."""

from collections.abc import Iterable
from pathlib import Path

from rase_core.errors.engine_error import EngineError, shown


class StoreError(EngineError):
    """The model store cannot be read or written."""


class InvalidModelId(StoreError):
    """A model id has other characters than letters, digits, `-_.`, starts with `-` or `.`, or is taken."""

    def __init__(self, model_id: str, reason: str | None = None, advice: str | None = None) -> None:
        letters = "use letters, digits, '-', '_' and '.', at most 128 of them, not starting with a dot or '-'"
        super().__init__(
            f"invalid model id {model_id!r}" + (f": {reason}" if reason is not None else ""),
            advice or letters,
        )
        self.model_id, self.reason = model_id, reason


class InvalidAlias(StoreError):
    """A text cannot be another name of a model, or cannot be taken for one: why."""

    def __init__(self, alias: object, reason: str, advice: str | None = None) -> None:
        super().__init__(f"alias {shown(alias)}: {reason}", advice)
        self.alias, self.reason = alias, reason


class ModelNotFound(StoreError):
    """No manifest has this id; `missing_store` is the store where there is none."""

    def __init__(
        self, model_id: str, known: Iterable[str], advice: str | None = None, store: Path | None = None
    ) -> None:
        self.model_id, self.known, self.missing_store = model_id, tuple(known), store
        place = f"(registered: {', '.join(self.known) or 'none'})"
        register = "register it with `rase model import PATH --id ID` or `rase model pull`"
        if store is not None:
            place = f"and there is no store at {store}"
            register = f"{register}, or name another store with --store or RASE_STORE"
        super().__init__(f"model {model_id!r} is not registered {place}", advice or register)


class ModelExists(StoreError):
    """An id is another model's, which nobody asked to replace: `path` is that of its weights."""

    def __init__(self, model_id: str, path: Path) -> None:
        super().__init__(
            f"model {model_id!r} is registered already, with another file: {path}",
            f"choose another id, remove that model first (`rase model remove {model_id}`), or let "
            "this one replace it (--replace)",
        )
        self.model_id, self.path = model_id, path


class InvalidManifest(StoreError):
    """A manifest cannot be understood: which file, line and key, and why."""

    def __init__(self, path: Path, reason: str, *, key: str | None = None, line: int | None = None) -> None:
        place = f"{path}" + (f", line {line}" if line is not None else "")
        what = f"key {key!r}: {reason}" if key is not None else reason
        super().__init__(
            f"{place}: {what}",
            "correct the file, or register the model anew, without its settings: "
            f"`rase model import PATH --id {path.stem} --replace`, or after `rase model remove {path.stem}`",
        )
        self.path, self.reason, self.key, self.line = path, reason, key, line


class IntegrityMismatch(StoreError):
    """A model's file is another than its manifest says: it has another hash, or another size."""

    def __init__(
        self, model_id: str, path: Path, expected: str, actual: str, *, fact: str = "sha256"
    ) -> None:
        super().__init__(
            f"model {model_id!r}: {path} has {fact} {actual}, its manifest says {expected}",
            "restore the file, or import it again if the change was meant",
        )
        self.model_id, self.path, self.expected, self.actual = model_id, path, expected, actual
        self.fact = fact


class NeighbourError(StoreError):
    """What another program keeps cannot be found, read or used here."""
