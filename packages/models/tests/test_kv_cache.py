"""Block tables: sequences keep their tokens whatever is shared, windows are whole, and no block is lost."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    precondition,
    rule,
)
from rase_core.errors import BackendFailure
from rase_models.backends.base import BLOCK_TOKENS
from rase_models.block_pool import BlockPool
from rase_models.kv_cache import KvCache, capacity_for
from rase_models.program import KvGroup

WINDOWS = (None, BLOCK_TOKENS + 7, 3)
RUN = 2 * BLOCK_TOKENS


def groups(*windows: int | None) -> list[KvGroup]:
    return [KvGroup(window, (index,), index + 1) for index, window in enumerate(windows)]


class Memory:
    """Blocks of tokens for each group, as a runner has blocks of keys and values."""

    def __init__(self, groups: int) -> None:
        self.blocks: list[list[list[object]]] = [[] for _ in range(groups)]

    def reserve(self, group: int, blocks: int) -> None:
        more = blocks - len(self.blocks[group])
        assert more > 0
        self.blocks[group] += [[None] * BLOCK_TOKENS for _ in range(more)]

    def copy_block(self, group: int, source: int, target: int) -> None:
        self.blocks[group][target] = list(self.blocks[group][source])


class Sequences:
    """A cache over a memory, with what every sequence should hold."""

    def __init__(self, *windows: int | None, limit: int | None = None) -> None:
        self.windows = windows or WINDOWS
        self.memory = Memory(len(self.windows))
        self.cache = KvCache(
            groups(*self.windows), self.memory.reserve, self.memory.copy_block, limit, most_rows=RUN
        )
        self.expected: dict[int, list[object]] = {}
        self.written = 0

    def open(self) -> int:
        handle = self.cache.open()
        self.expected[handle] = []
        return handle

    def append(self, counts: dict[int, int], *, undo: bool = False) -> None:
        """Append in runs of at most RUN tokens of a sequence."""
        before = {handle: list(self.expected[handle]) for handle in counts}
        self.cache.prepare(counts)
        for handle, count in counts.items():
            for start in range(0, count, RUN):
                self._run(handle, min(RUN, count - start))
        if undo:
            self.cache.withdraw(counts)
            self.expected.update(before)
        else:
            self.cache.settle(counts)

    def _run(self, handle: int, count: int) -> None:
        self.cache.extend({handle: count})
        for _ in range(count):
            self._write(handle)
        self.check_windows(handle)
        self.cache.advance({handle: count})

    def _write(self, handle: int) -> None:
        tokens, self.written = self.expected[handle], self.written + 1
        for group, table in enumerate(self.cache.blocks(handle)):
            block = table[len(tokens) // BLOCK_TOKENS]
            self.memory.blocks[group][block][len(tokens) % BLOCK_TOKENS] = self.written
        tokens.append(self.written)

    def truncate(self, handle: int, length: int) -> None:
        self.cache.truncate(handle, length)
        del self.expected[handle][length:]

    def fork(self, handle: int, length: int) -> int:
        child = self.cache.fork(handle, length)
        self.expected[child] = self.expected[handle][:length]
        return child

    def check_windows(self, handle: int) -> None:
        """Check what the next token of a sequence sees of itself and of those before it."""
        tokens = self.expected[handle]
        for group, table in enumerate(self.cache.blocks(handle)):
            window = self.windows[group]
            first = 0 if window is None else max(self.cache.length(handle) + 1 - window, 0)
            blocks = self.memory.blocks[group]
            stored = [blocks[table[p // BLOCK_TOKENS]][p % BLOCK_TOKENS] for p in range(first, len(tokens))]
            assert -1 not in table[first // BLOCK_TOKENS :]
            assert stored == tokens[first:]

    def check(self) -> None:
        for handle in self.expected:
            assert self.cache.length(handle) == len(self.expected[handle])
            self.check_windows(handle)
            assert self.cache.resume_length(handle, len(self.expected[handle])) == len(self.expected[handle])
        held = self.cache.held()
        assert [len(blocks) for blocks in held] == self.cache.used()


class AnyUse(RuleBasedStateMachine):
    """Whatever is done in whatever order."""

    handles = Bundle("handles")

    @initialize()
    def start(self) -> None:
        self.sequences = Sequences()

    def _length(self, handle: int, share: float) -> int:
        """Return a length to go back to."""
        wanted = round(share * len(self.sequences.expected[handle]))
        return self.sequences.cache.resume_length(handle, wanted)

    @rule(target=handles)
    def open(self) -> int:
        return self.sequences.open()

    @rule(handle=handles, count=st.integers(0, 5 * BLOCK_TOKENS), undo=st.booleans())
    def append(self, handle: int, count: int, undo: bool) -> None:
        self.sequences.append({handle: count}, undo=undo)

    @precondition(lambda self: len(self.sequences.expected) > 1)
    @rule(data=st.data(), count=st.integers(1, BLOCK_TOKENS))
    def append_to_several(self, data: st.DataObject, count: int) -> None:
        handles = st.sampled_from(sorted(self.sequences.expected))
        chosen = data.draw(st.lists(handles, min_size=2, max_size=4, unique=True))
        self.sequences.append({handle: count + i for i, handle in enumerate(chosen)})

    @rule(handle=handles, count=st.integers(1, 2 * BLOCK_TOKENS))
    def append_one_by_one(self, handle: int, count: int) -> None:
        for _ in range(count):
            self.sequences.append({handle: 1})

    @rule(target=handles, handle=handles, share=st.floats(0, 1))
    def fork(self, handle: int, share: float) -> int:
        return self.sequences.fork(handle, self._length(handle, share))

    @rule(handle=handles, share=st.floats(0, 1))
    def truncate(self, handle: int, share: float) -> None:
        self.sequences.truncate(handle, self._length(handle, share))

    @rule(handle=handles)
    def go_back_to_whole_blocks(self, handle: int) -> None:
        length = len(self.sequences.expected[handle])
        whole = self.sequences.cache.resume_length(handle, length - length % BLOCK_TOKENS)
        self.sequences.truncate(handle, whole)

    @rule(handle=consumes(handles))
    def release(self, handle: int) -> None:
        self.sequences.cache.release(handle)
        del self.sequences.expected[handle]

    @invariant()
    def windows_are_whole_and_no_block_is_lost(self) -> None:
        self.sequences.check()

    def teardown(self) -> None:
        for handle in self.sequences.expected:
            self.sequences.cache.release(handle)
        assert self.sequences.cache.blocks_used == 0


AnyUse.TestCase.settings = settings(max_examples=50, stateful_step_count=25)
TestAnyUse = AnyUse.TestCase


def test_a_fork_shares_full_blocks_and_copies_the_partial_one_when_it_grows() -> None:
    sequences = Sequences(None)
    parent = sequences.open()
    sequences.append({parent: 2 * BLOCK_TOKENS + 5})
    child = sequences.fork(parent, 2 * BLOCK_TOKENS + 3)
    assert sequences.cache.blocks_used == 3
    sequences.append({child: 1})
    (own,), (shared,) = sequences.cache.blocks(child), sequences.cache.blocks(parent)
    assert own[:2] == shared[:2]
    assert own[2] != shared[2]
    sequences.check()


def test_a_block_whose_copying_fails_is_as_before() -> None:
    def fail(source: int, target: int) -> None:
        raise BackendFailure("no copies today")

    pool = BlockPool(lambda blocks: None, fail)
    pool.make_room(2)
    block = pool.take()
    pool.hold(block)
    with pytest.raises(BackendFailure):
        pool.own(block)
    assert (pool.used, pool.is_shared(block)) == (1, True)


def test_a_block_of_its_own_is_not_copied() -> None:
    sequences = Sequences(None)
    handle = sequences.open()
    sequences.append({handle: 5})
    child = sequences.cache.fork(handle, 5)
    sequences.cache.release(child)
    blocks = sequences.cache.blocks(handle)
    sequences.append({handle: 5})
    assert sequences.cache.blocks(handle) == blocks


def test_room_grows_with_use_and_freed_blocks_are_used_again() -> None:
    sequences = Sequences(None)
    handle = sequences.open()
    sequences.append({handle: 10 * BLOCK_TOKENS})
    reserved = len(sequences.memory.blocks[0])
    assert 10 <= reserved <= 13
    sequences.cache.release(handle)
    del sequences.expected[handle]
    sequences.append({sequences.open(): 10 * BLOCK_TOKENS})
    assert len(sequences.memory.blocks[0]) == reserved


@pytest.mark.parametrize("step", [1, RUN, 40 * BLOCK_TOKENS])
def test_a_window_takes_the_memory_of_a_window_however_long_the_sequence(step: int) -> None:
    sequences = Sequences(2 * BLOCK_TOKENS)
    handle = sequences.open()
    for _ in range(40 * BLOCK_TOKENS // step):
        sequences.append({handle: step})
    assert sequences.cache.blocks_used <= 3
    assert len(sequences.memory.blocks[0]) <= 10
    sequences.check()


def test_a_sequence_can_go_back_to_its_newest_prompt() -> None:
    sequences = Sequences(BLOCK_TOKENS)
    handle = sequences.open()
    sequences.append({handle: 5 * BLOCK_TOKENS + 9})
    for _ in range(4 * BLOCK_TOKENS):
        sequences.append({handle: 1})
    lengths = (9 * BLOCK_TOKENS, 5 * BLOCK_TOKENS + 9, 5 * BLOCK_TOKENS, 4 * BLOCK_TOKENS - 1, 0)
    resumed = [sequences.cache.resume_length(handle, length) for length in lengths]
    assert resumed == [9 * BLOCK_TOKENS, 5 * BLOCK_TOKENS, 5 * BLOCK_TOKENS, 0, 0]
    with pytest.raises(ValueError, match="cannot go on from 325 tokens"):
        sequences.cache.fork(handle, 5 * BLOCK_TOKENS + 5)
    sequences.truncate(handle, 5 * BLOCK_TOKENS)
    sequences.append({handle: 7})
    sequences.check()


def test_what_is_kept_for_going_back_makes_way() -> None:
    sequences = Sequences(BLOCK_TOKENS, limit=6)
    handle, other = sequences.open(), sequences.open()
    sequences.append({handle: BLOCK_TOKENS})
    for _ in range(4 * BLOCK_TOKENS):
        sequences.append({handle: 1})
    used = sequences.cache.blocks_used
    assert sequences.cache.resume_length(handle, BLOCK_TOKENS) == BLOCK_TOKENS
    assert sequences.cache.fits({other: 5 * BLOCK_TOKENS})
    assert sequences.cache.blocks_used < used
    assert sequences.cache.resume_length(handle, BLOCK_TOKENS) == 0
    sequences.check()


def test_when_there_is_no_room_nothing_changes() -> None:
    def refuse(group: int, blocks: int) -> None:
        raise MemoryError

    cache = KvCache(groups(None), refuse, lambda group, source, target: None)
    handle = cache.open()
    with pytest.raises(MemoryError):
        cache.prepare({handle: 1})
    assert (cache.length(handle), cache.blocks(handle), cache.blocks_used) == (0, ((),), 0)


def test_a_limit_is_told_before_and_kept() -> None:
    sequences = Sequences(None, limit=3)
    cache = sequences.cache
    first, second = sequences.open(), sequences.open()
    sequences.append({first: BLOCK_TOKENS + 1})
    assert cache.fits({first: BLOCK_TOKENS - 1, second: BLOCK_TOKENS})
    assert not cache.fits({first: BLOCK_TOKENS, second: 1})
    with pytest.raises(MemoryError, match="the 3 blocks"):
        cache.prepare({second: BLOCK_TOKENS + 1})
    sequences.append({second: BLOCK_TOKENS})
    assert (cache.blocks_used, len(sequences.memory.blocks[0])) == (3, 3)


@pytest.mark.parametrize("windows", [(None,), (None, BLOCK_TOKENS), (3, 5 * BLOCK_TOKENS)])
@pytest.mark.parametrize("tokens", [1, 3 * BLOCK_TOKENS, 20 * BLOCK_TOKENS + 1])
def test_one_sequence_fits_into_the_memory_that_is_told_for_it(
    windows: tuple[int | None, ...], tokens: int
) -> None:
    limit = capacity_for(groups(*windows), tokens, RUN)
    assert limit <= -(-tokens // BLOCK_TOKENS)
    for step in (1, 100, tokens):
        sequences = Sequences(*windows, limit=limit)
        handle = sequences.open()
        for start in range(0, tokens, step):
            sequences.append({handle: min(step, tokens - start)})
        sequences.check()


def test_room_for_the_copy_of_a_shared_block_counts() -> None:
    sequences = Sequences(None, limit=1)
    parent = sequences.open()
    sequences.append({parent: 1})
    assert sequences.cache.fits({parent: 1})
    sequences.cache.fork(parent, 1)
    assert not sequences.cache.fits({parent: 1})


@pytest.mark.parametrize("length", [-1, 4])
def test_a_length_beyond_the_sequence_is_refused(length: int) -> None:
    sequences = Sequences()
    handle = sequences.open()
    sequences.append({handle: 3})
    with pytest.raises(ValueError, match=f"length {length} of a sequence of 3 tokens"):
        sequences.cache.fork(handle, length)
    with pytest.raises(ValueError, match=f"length {length} of a sequence of 3 tokens"):
        sequences.cache.truncate(handle, length)


def test_a_released_handle_is_unknown_and_never_given_again() -> None:
    cache = Sequences().cache
    handle = cache.open()
    cache.release(handle)
    assert handle not in cache
    with pytest.raises(KeyError):
        cache.release(handle)
    assert cache.open() != handle
