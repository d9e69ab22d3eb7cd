"""Slots of states: whose they are, where copies are kept, and what a failed run costs."""

import pytest
from rase_core.errors import BackendFailure
from rase_models.state_cache import MOST_KEPT, StateCache


class Slots:
    """Slots whose contents are numbers."""

    def __init__(self, limit: int | None = None) -> None:
        self.contents: list[int] = []
        self.cache = StateCache(self.reserve, self.copy, limit)

    def reserve(self, slots: int) -> None:
        self.contents += [0] * (slots - len(self.contents))

    def copy(self, source: int, target: int) -> None:
        self.contents[target] = self.contents[source]

    def write(self, handle: int, value: int) -> None:
        self.contents[self.cache.slot(handle)] = value

    def read(self, handle: int) -> int:
        return self.contents[self.cache.slot(handle)]


def test_a_sequence_has_one_slot_from_its_first_token_on() -> None:
    slots = Slots()
    assert slots.cache.slots_used == 0
    assert slots.cache.slot(7) == slots.cache.slot(7) != slots.cache.slot(8)
    slots.cache.release(7)
    assert slots.cache.slots_used == 1
    slots.cache.slot(9)
    assert len(slots.contents) == 2


def test_a_sequence_goes_on_from_where_it_is_or_from_a_kept_copy() -> None:
    slots = Slots()
    slots.write(1, 64)
    slots.cache.keep(1, 64)
    slots.write(1, 100)
    lengths = {length: slots.cache.resume_length(1, 100, length) for length in (0, 63, 64, 99, 100, 200)}
    assert lengths == {0: 0, 63: 0, 64: 64, 99: 64, 100: 100, 200: 100}


def test_only_the_newest_copies_are_kept() -> None:
    slots = Slots()
    for length in (64, 128, 192, 256):
        slots.write(1, length)
        slots.cache.keep(1, length)
    assert slots.cache.resume_length(1, 300, 128) == 0
    assert slots.cache.resume_length(1, 300, 192) == 192
    assert slots.cache.slots_used == 1 + MOST_KEPT


def test_a_fork_has_the_state_of_its_length() -> None:
    slots = Slots()
    slots.write(1, 64)
    slots.cache.keep(1, 64)
    slots.write(1, 100)
    slots.cache.fork(1, 100, 2, 64)
    slots.cache.fork(1, 100, 3, 100)
    slots.cache.fork(1, 100, 4, 0)
    assert (slots.read(2), slots.read(3)) == (64, 100)
    slots.write(2, 65)
    assert slots.read(1) == 100
    with pytest.raises(ValueError, match="no state at length 80"):
        slots.cache.fork(1, 100, 5, 80)


def test_truncating_goes_back_to_a_copy_and_drops_later_ones() -> None:
    slots = Slots()
    for length in (64, 128):
        slots.write(1, length)
        slots.cache.keep(1, length)
    slots.write(1, 150)
    with pytest.raises(ValueError, match="no state at length 100"):
        slots.cache.truncate(1, 150, 100)
    slots.cache.truncate(1, 150, 64)
    assert slots.read(1) == 64
    assert slots.cache.resume_length(1, 64, 64) == 64
    assert slots.cache.slots_used == 2
    slots.cache.truncate(1, 64, 0)
    assert slots.cache.slots_used == 1


def test_a_spoilt_state_is_refused_until_the_sequence_goes_back() -> None:
    slots = Slots()
    slots.write(1, 64)
    slots.cache.keep(1, 64)
    slots.cache.lose(1)
    with pytest.raises(BackendFailure, match="spoilt the state"):
        slots.cache.slot(1)
    assert slots.cache.resume_length(1, 70, 70) == 64
    slots.cache.truncate(1, 70, 64)
    assert slots.read(1) == 64


def test_releasing_gives_all_slots_back() -> None:
    slots = Slots()
    slots.write(1, 1)
    slots.cache.keep(1, 64)
    slots.cache.release(1)
    slots.cache.release(2)
    assert slots.cache.slots_used == 0


def test_a_limit_refuses_more_sequences_and_bounds_the_copies() -> None:
    slots = Slots(limit=2)
    assert slots.cache.fits([1, 2])
    assert not slots.cache.fits([1, 2, 3])
    for handle in (1, 2):
        slots.write(handle, handle)
        for length in (64, 128):
            slots.cache.keep(handle, length)
    assert slots.cache.slots_used == 4
    assert slots.cache.fits([1, 2])
    assert not slots.cache.fits([3])
    slots.write(2, 22)
    slots.cache.keep(2, 192)
    assert slots.cache.slots_used == 4
    slots.cache.release(1)
    assert slots.cache.fits([3])
    assert Slots().cache.fits(range(1000))
