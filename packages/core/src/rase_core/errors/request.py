"""What can be wrong with a request, and how it can end."""

from rase_core.errors.engine_error import EngineError, shown


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
