"""Rules that begin where a model writes a marker."""

from collections.abc import Callable, Mapping, Sequence

from rase_core.constraint import Allowed, Constraint


class AfterMarker:
    """A `Constraint` that lets a model say what it likes up to a marker, and then holds it to rules.

    Args:
        rules: makes the rules of what follows, the marker included, by the token that is the marker.
    """

    def __init__(self, rules: Mapping[int, Callable[[], Constraint]]) -> None:
        self._rules = rules
        self._begun: Constraint | None = None

    def allowed(self) -> Allowed | None:
        """Return which tokens may come next, bool [vocab]; None for all."""
        return None if self._begun is None else self._begun.allowed()

    def forced(self) -> Sequence[int]:
        """Return tokens that must come next, behind the marker."""
        return () if self._begun is None else self._begun.forced()

    def accept(self, token: int) -> None:
        """Count a token as part of the answer."""
        if self._begun is None and token in self._rules:
            self._begun = self._rules[token]()
        if self._begun is not None:
            self._begun.accept(token)

    @property
    def may_end(self) -> bool:
        """Whether the answer may end here."""
        return self._begun is None or self._begun.may_end

    @property
    def is_complete(self) -> bool:
        """Whether the answer must end here."""
        return self._begun is not None and self._begun.is_complete
