"""Which slots of states belong to which sequence, and where sequences can be taken up again; no tensors.

A state is of fixed size and holds what is left of all tokens so far; it cannot go back. So copies of it are
kept at a few lengths, and a sequence is forked or cut there.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from rase_core.errors import BackendFailure

MOST_KEPT = 2
"""Copies of a sequence, the newest."""


@dataclass(slots=True)
class _Sequence:
    slot: int | None = None
    lost: bool = False
    kept: dict[int, int] = field(default_factory=dict)  # slots by length, ascending


class StateCache:
    """Slots of sequences, by handle.

    Args:
        reserve: makes room for at least so many slots.
        copy: copies the contents of one slot to another.
        limit: the most sequences that `fits` allows, and as many copies are kept; None without limit.
    """

    def __init__(
        self,
        reserve: Callable[[int], None],
        copy: Callable[[int, int], None],
        limit: int | None = None,
    ) -> None:
        self._reserve, self._copy, self._limit = reserve, copy, limit
        self._free: list[int] = []
        self._count = 0
        self._sequences: dict[int, _Sequence] = {}

    @property
    def slots_used(self) -> int:
        """How many slots belong to a sequence."""
        return self._count - len(self._free)

    def fits(self, handles: Iterable[int]) -> bool:
        """Tell whether the limit allows sequences to have a slot."""
        if self._limit is None:
            return True
        having = {handle for handle, sequence in self._sequences.items() if sequence.slot is not None}
        return having.issuperset(handles) or len(having.union(handles)) <= self._limit

    def slot(self, handle: int) -> int:
        """Return the slot of a sequence, which it has from its first token on.

        Raises BackendFailure for a sequence whose state a failed run has spoilt.
        """
        sequence = self._of(handle)
        if sequence.lost:
            raise BackendFailure("a run that failed has spoilt the state of the sequence", "start it over")
        if sequence.slot is None:
            sequence.slot = self._take()
        return sequence.slot

    def resume_length(self, handle: int, own: int, length: int) -> int:
        """Return the longest length, at most `length`, at which a sequence of `own` tokens has a state."""
        sequence = self._of(handle)
        if own <= length and not sequence.lost:
            return own
        return max((kept for kept in sequence.kept if kept <= length), default=0)

    def keep(self, handle: int, length: int) -> None:
        """Keep a copy of the state of a sequence, which has this length now, if there is room for one."""
        sequence, slot = self._of(handle), self.slot(handle)
        full = self._limit is not None and self.slots_used >= 2 * self._limit
        while len(sequence.kept) >= (1 if full else MOST_KEPT):
            self._free.append(sequence.kept.pop(min(sequence.kept)))
            full = False
        if full:
            return
        sequence.kept[length] = self._take()
        self._copy(slot, sequence.kept[length])

    def fork(self, parent: int, own: int, child: int, length: int) -> None:
        """Give a new sequence the state that another, of `own` tokens, has at a length.

        Raises ValueError where there is no state.
        """
        source = self._state_at(parent, own, length)
        if source is not None:
            self._copy(source, self.slot(child))

    def truncate(self, handle: int, own: int, length: int) -> None:
        """Go back to a length of a sequence of `own` tokens; ValueError where it has no state."""
        source, sequence = self._state_at(handle, own, length), self._of(handle)
        sequence.lost = False
        if source is not None and source != sequence.slot:
            self._copy(source, self.slot(handle))
        for later in [kept for kept in sequence.kept if kept > length]:
            self._free.append(sequence.kept.pop(later))

    def lose(self, handle: int) -> None:
        """Note that a failed run has spoilt the state of a sequence."""
        self._of(handle).lost = True

    def release(self, handle: int) -> None:
        """Close a sequence."""
        sequence = self._sequences.pop(handle, _Sequence())
        self._free += sequence.kept.values()
        if sequence.slot is not None:
            self._free.append(sequence.slot)

    def _of(self, handle: int) -> _Sequence:
        return self._sequences.setdefault(handle, _Sequence())

    def _state_at(self, handle: int, own: int, length: int) -> int | None:
        """Return the slot with the state at a length, None for length 0."""
        if self.resume_length(handle, own, length) != length:
            raise ValueError(f"sequence {handle} has no state at length {length}")
        if length == 0:
            return None
        sequence = self._of(handle)
        return sequence.slot if length == own and not sequence.lost else sequence.kept[length]

    def _take(self) -> int:
        if not self._free:
            self._reserve(self._count + 1)
            self._free.append(self._count)
            self._count += 1
        return self._free.pop()
