"""Block tables: sequences keep their tokens whatever is shared, and no block is lost."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule
from rase_models.backends.base import BLOCK_TOKENS
from rase_models.kv_cache import KvCache


class Memory:
    """Blocks of tokens, as a runner has blocks of keys and values."""

    def __init__(self) -> None:
        self.blocks: list[list[object]] = []

    def reserve(self, blocks: int) -> None:
        assert blocks > len(self.blocks)
        self.blocks += [[None] * BLOCK_TOKENS for _ in range(blocks - len(self.blocks))]

    def copy_block(self, source: int, target: int) -> None:
        self.blocks[target] = list(self.blocks[source])


class Sequences:
    """A cache over a memory, with what every sequence should hold."""

    def __init__(self) -> None:
        self.memory = Memory()
        self.cache = KvCache(self.memory.reserve, self.memory.copy_block)
        self.expected: dict[int, list[object]] = {}
        self.written = 0

    def open(self) -> int:
        handle = self.cache.open()
        self.expected[handle] = []
        return handle

    def append(self, counts: dict[int, int]) -> None:
        self.cache.extend(counts)
        for handle, count in counts.items():
            for _ in range(count):
                self._write(handle)
        self.cache.advance(counts)

    def _write(self, handle: int) -> None:
        tokens, self.written = self.expected[handle], self.written + 1
        block = self.cache.blocks(handle)[len(tokens) // BLOCK_TOKENS]
        self.memory.blocks[block][len(tokens) % BLOCK_TOKENS] = self.written
        tokens.append(self.written)

    def stored(self, handle: int) -> list[object]:
        tokens = [token for block in self.cache.blocks(handle) for token in self.memory.blocks[block]]
        return tokens[: self.cache.length(handle)]

    def check(self) -> None:
        for handle, tokens in self.expected.items():
            assert self.stored(handle) == tokens
            assert len(self.cache.blocks(handle)) == -(-len(tokens) // BLOCK_TOKENS)
        held = {block for handle in self.expected for block in self.cache.blocks(handle)}
        assert self.cache.blocks_used == len(held)


class AnyUse(RuleBasedStateMachine):
    """Whatever is done in whatever order."""

    handles = Bundle("handles")

    @initialize()
    def start(self) -> None:
        self.sequences = Sequences()

    @rule(target=handles)
    def open(self) -> int:
        return self.sequences.open()

    @rule(handle=handles, count=st.integers(0, 3 * BLOCK_TOKENS))
    def append(self, handle: int, count: int) -> None:
        self.sequences.append({handle: count})

    @rule(handles=st.lists(handles, min_size=2, max_size=4, unique=True), count=st.integers(1, BLOCK_TOKENS))
    def append_to_several(self, handles: list[int], count: int) -> None:
        self.sequences.append({handle: count + i for i, handle in enumerate(handles)})

    @rule(target=handles, handle=handles, share=st.floats(0, 1))
    def fork(self, handle: int, share: float) -> int:
        tokens = self.sequences.expected[handle]
        length = round(share * len(tokens))
        child = self.sequences.cache.fork(handle, length)
        self.sequences.expected[child] = tokens[:length]
        return child

    @rule(handle=handles, share=st.floats(0, 1))
    def truncate(self, handle: int, share: float) -> None:
        tokens = self.sequences.expected[handle]
        length = round(share * len(tokens))
        self.sequences.cache.truncate(handle, length)
        self.sequences.expected[handle] = tokens[:length]

    @rule(handle=handles, count=st.integers(1, 2 * BLOCK_TOKENS))
    def give_up(self, handle: int, count: int) -> None:
        self.sequences.cache.extend({handle: count})
        self.sequences.cache.withdraw({handle: count})

    @rule(handle=consumes(handles))
    def release(self, handle: int) -> None:
        self.sequences.cache.release(handle)
        del self.sequences.expected[handle]

    @invariant()
    def sequences_hold_their_tokens_and_no_block_is_lost(self) -> None:
        self.sequences.check()

    def teardown(self) -> None:
        for handle in self.sequences.expected:
            self.sequences.cache.release(handle)
        assert self.sequences.cache.blocks_used == 0


AnyUse.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestAnyUse = AnyUse.TestCase


def test_a_fork_shares_full_blocks_and_copies_the_partial_one_when_it_grows() -> None:
    sequences = Sequences()
    parent = sequences.open()
    sequences.append({parent: 2 * BLOCK_TOKENS + 5})
    child = sequences.cache.fork(parent, 2 * BLOCK_TOKENS + 3)
    sequences.expected[child] = sequences.expected[parent][: 2 * BLOCK_TOKENS + 3]
    assert sequences.cache.blocks_used == 3
    sequences.append({child: 1})
    assert sequences.cache.blocks(child)[:2] == sequences.cache.blocks(parent)[:2]
    assert sequences.cache.blocks(child)[2] != sequences.cache.blocks(parent)[2]
    sequences.check()


def test_a_block_of_its_own_is_not_copied() -> None:
    sequences = Sequences()
    handle = sequences.open()
    sequences.append({handle: 5})
    child = sequences.cache.fork(handle, 5)
    sequences.cache.release(child)
    blocks = sequences.cache.blocks(handle)
    sequences.append({handle: 5})
    assert sequences.cache.blocks(handle) == blocks


def test_room_grows_with_use_and_freed_blocks_are_used_again() -> None:
    sequences = Sequences()
    handle = sequences.open()
    sequences.append({handle: 10 * BLOCK_TOKENS})
    reserved = len(sequences.memory.blocks)
    assert 10 <= reserved <= 13
    sequences.cache.release(handle)
    del sequences.expected[handle]
    sequences.append({sequences.open(): 10 * BLOCK_TOKENS})
    assert len(sequences.memory.blocks) == reserved


def test_when_there_is_no_room_nothing_changes() -> None:
    def refuse(blocks: int) -> None:
        raise MemoryError

    cache = KvCache(refuse, lambda source, target: None)
    handle = cache.open()
    with pytest.raises(MemoryError):
        cache.extend({handle: 1})
    assert (cache.length(handle), cache.blocks(handle), cache.blocks_used) == (0, (), 0)


def test_a_limit_is_told_before_and_kept() -> None:
    reserved: list[int] = []
    cache = KvCache(reserved.append, lambda source, target: None, limit=3)
    first, second = cache.open(), cache.open()
    cache.extend({first: BLOCK_TOKENS + 1})
    cache.advance({first: BLOCK_TOKENS + 1})
    assert cache.fits({first: BLOCK_TOKENS - 1, second: BLOCK_TOKENS})
    assert not cache.fits({first: BLOCK_TOKENS, second: 1})
    with pytest.raises(MemoryError, match="3 blocks"):
        cache.extend({second: BLOCK_TOKENS + 1})
    cache.extend({second: BLOCK_TOKENS})
    assert (cache.blocks_used, reserved[-1]) == (3, 3)


def test_room_for_the_copy_of_a_shared_block_counts() -> None:
    cache = KvCache(lambda blocks: None, lambda source, target: None, limit=1)
    parent = cache.open()
    cache.extend({parent: 1})
    cache.advance({parent: 1})
    assert cache.fits({parent: 1})
    cache.fork(parent, 1)
    assert not cache.fits({parent: 1})


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
    cache = KvCache(lambda blocks: None, lambda source, target: None)
    handle = cache.open()
    cache.release(handle)
    assert handle not in cache
    with pytest.raises(KeyError):
        cache.release(handle)
    assert cache.open() != handle
