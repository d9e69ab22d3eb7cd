"""Every failure that rase reports by name.

    EngineError
    ├── StoreError                  the model store
    │   ├── InvalidModelId
    │   ├── InvalidAlias
    │   ├── ModelNotFound
    │   ├── ModelExists
    │   ├── InvalidManifest
    │   ├── IntegrityMismatch
    │   └── NeighbourError
    ├── ModelFileError              a file of a model
    │   ├── ModelFileNotFound
    │   ├── UnsupportedFormat
    │   ├── InvalidGguf
    │   ├── UnsupportedTensorType
    │   ├── UnsupportedArchitecture
    │   ├── ArchitectureMismatch
    │   ├── TokenizerError
    │   └── TemplateError
    ├── HubError                    Hugging Face
    ├── RequestError                what was asked for
    │   ├── InvalidParameter
    │   │   └── InvalidGenerationConfig
    │   ├── InvalidConversation
    │   ├── UnenforceableFormat
    │   ├── UnencodableText
    │   └── ContextOverflow
    ├── Cancelled                   a request under way
    ├── RequestTimeout
    ├── QueueFull                   the scheduler
    ├── ShuttingDown
    ├── BackendUnavailable          the machine
    ├── ModelTooLarge
    ├── MemoryTaken
    ├── ConstraintFailure           an answer under way
    └── BackendFailure
        ├── DeviceOutOfMemory
        ├── DeviceLost
        └── InvalidLogits

The message says what happened and with which file, key or value; `advice` says what to do about it.
"""

from collections.abc import Iterable
from pathlib import Path

_MOST_SHOWN = 120


class EngineError(Exception):
    """Base of every error that rase raises on purpose."""

    def __init__(self, message: str, advice: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice


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


class ModelFileError(EngineError):
    """A file of a model cannot be used."""


class ModelFileNotFound(ModelFileError):
    """A model's file does not exist or is not a regular, readable file."""

    def __init__(self, path: Path, reason: str = "no such file") -> None:
        super().__init__(
            f"{path}: {reason}", "check the path; a model's files are used in place and must stay there"
        )
        self.path, self.reason = path, reason


class UnsupportedFormat(ModelFileError):
    """A file is not in a format that rase reads."""

    def __init__(self, path: Path, found: str) -> None:
        super().__init__(f"{path}: unsupported format: {found}", "rase reads GGUF version 2 and 3")
        self.path, self.found = path, found


class InvalidGguf(ModelFileError):
    """A GGUF file breaks the format or its architecture's needs: where and how."""

    def __init__(self, path: Path, what: str, *, offset: int | None = None) -> None:
        place = f"{path}" + (f", offset {offset}" if offset is not None else "")
        super().__init__(f"{place}: {what}", "download the file again, or convert the model again")
        self.path, self.what, self.offset = path, what, offset


class UnsupportedTensorType(ModelFileError):
    """A tensor has a type that rase cannot compute with."""

    def __init__(self, type_name: str, supported: Iterable[str], tensor: str | None = None) -> None:
        self.type_name, self.supported, self.tensor = type_name, tuple(supported), tensor
        place = f"tensor {tensor}: " if tensor is not None else ""
        super().__init__(f"{place}unsupported type {type_name}", f"supported: {', '.join(self.supported)}")


class UnsupportedArchitecture(ModelFileError):
    """No program is known for a file's `general.architecture`; of some it is known why."""

    def __init__(
        self,
        architecture: str,
        supported: Iterable[str],
        path: Path | None = None,
        reason: str | None = None,
    ) -> None:
        self.architecture, self.supported, self.path = architecture, tuple(supported), path
        self.reason = reason
        place = f"{path}: " if path is not None else ""
        advice = f"supported: {', '.join(self.supported)}"
        super().__init__(
            f"{place}unsupported architecture {architecture!r}",
            f"{reason}; {advice}" if reason is not None else advice,
        )


class ArchitectureMismatch(ModelFileError):
    """The architecture that was asked for contradicts the file."""

    def __init__(self, path: Path, given: str, found: str) -> None:
        super().__init__(
            f"{path}: is {found!r}, not {given!r}", f"leave the architecture out, or give {found!r}"
        )
        self.path, self.given, self.found = path, given, found


class TokenizerError(ModelFileError):
    """A tokenizer is missing, broken or not known."""


class TemplateError(ModelFileError):
    """A chat template is missing or broken."""


class HubError(EngineError):
    """A download from Hugging Face failed."""


class RequestError(EngineError):
    """What was asked for cannot be done, by any model or by this one."""


class InvalidParameter(RequestError):
    """A parameter has a value outside its range: of a request, a registration or of loading a model."""

    def __init__(self, parameter: str, value: object, expected: str) -> None:
        super().__init__(f"invalid {parameter}: {shown(value)}, expected {expected}")
        self.parameter, self.value, self.expected = parameter, value, expected


class InvalidGenerationConfig(InvalidParameter):
    """A field of GenerationConfig has a value outside its range, or one that this model cannot have."""


class InvalidConversation(RequestError):
    """The messages are at fault: an unknown role, missing content, or what the template refuses."""

    def __init__(self, reason: str, *, index: int | None = None) -> None:
        super().__init__(reason if index is None else f"messages[{index}]: {reason}")
        self.reason, self.index = reason, index


class UnenforceableFormat(RequestError):
    """A schema, grammar or pattern that answers cannot be held to: which, and why."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(
            f"{kind} that cannot be enforced: {reason}", "leave it out, or say it in another way"
        )
        self.kind, self.reason = kind, reason


class UnencodableText(RequestError):
    """A text holds something that the vocabulary has no token for, such as a control character."""

    def __init__(self, what: str) -> None:
        super().__init__(f"the model's vocabulary has no token for {what}", "remove it from the text")
        self.what = what


class ContextOverflow(RequestError):
    """A prompt does not fit the context; where `is_least`, it has so many tokens or more."""

    def __init__(self, tokens: int, limit: int, *, is_least: bool = False) -> None:
        count = f"at least {tokens}" if is_least else f"{tokens}"
        super().__init__(
            f"the prompt has {count} tokens, but the maximum context length is {limit} tokens",
            "shorten the prompt",
        )
        self.tokens, self.limit, self.is_least = tokens, limit, is_least


class Cancelled(EngineError):
    """The caller gave the work up."""

    def __init__(self, message: str = "cancelled") -> None:
        super().__init__(message)


class RequestTimeout(EngineError):
    """A request was not finished in the time that it had."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the request was not finished within {seconds:g} seconds",
            "allow more time, or ask for fewer tokens",
        )
        self.seconds = seconds


class QueueFull(EngineError):
    """As many requests wait as may wait."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit} requests are waiting, the most that may", "try again later")
        self.limit = limit


class ShuttingDown(EngineError):
    """The model takes no more requests, and may have ended those it had."""

    def __init__(self) -> None:
        super().__init__("the model is shutting down", "try again later")


class ConstraintFailure(EngineError):
    """An answer cannot be held to its format any further."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the answer cannot be held to its format: {reason}", "use a simpler format")
        self.reason = reason


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
            f"model {model_id!r} needs {needed / 1e6:,.0f} MB of memory ({parts}), more than the "
            f"{limit / 1e6:,.0f} MB that models may take",
            "allow models more memory (--max-memory), or give this one a shorter context (--context-length)",
        )
        self.model_id, self.needed, self.limit = model_id, needed, limit


class MemoryTaken(EngineError):
    """A model has no room beside those that are in use; sizes are in bytes."""

    def __init__(self, model_id: str, needed: int, limit: int, users: Iterable[str]) -> None:
        self.users = tuple(users)
        super().__init__(
            f"model {model_id!r} needs {needed / 1e6:,.0f} MB of the {limit / 1e6:,.0f} MB of memory that "
            f"models may take, and these are in use: {', '.join(self.users)}",
            "try again later, or allow models more memory (--max-memory)",
        )
        self.model_id, self.needed, self.limit = model_id, needed, limit


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


def shown(value: object) -> str:
    """Return a value as Python writes it, cut to a line."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # of thousands of digits, or nested as deeply
        return f"a very large {type(value).__name__}"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
