"""What was computed once is not computed again, and never for the wrong prompt."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rase_core.answer import Generation
from rase_core.decoder import Batch
from rase_core.generation import generate
from rase_core.sampling import GenerationConfig
from rase_core.scheduler import GenerationRequest, SchedulerLimits
from rase_core.scheduler.pool import SequencePool
from rase_core.scheduler.prefix_tree import Path, PrefixTree
from rase_core.scheduler.testing import StepwiseScheduler, Submitted
from rase_core.testing import HistoryDecoder

BLOCK = 4
SYSTEM = [7, 8, 9, 10] * 5
GREEDY = GenerationConfig(temperature=0, max_tokens=6)


class Bench:
    """A scheduler that counts the tokens it computes."""

    def __init__(
        self, cached_tokens: int | None = None, kv_capacity: int | None = None, block_tokens: int = BLOCK
    ) -> None:
        self.computed = 0
        self.decoder = HistoryDecoder(
            block_tokens=block_tokens, kv_capacity=kv_capacity, context_length=128, on_forward=self.count
        )
        self.scheduler = StepwiseScheduler(self.decoder, SchedulerLimits(cached_tokens=cached_tokens))

    def count(self, batch: Batch) -> None:
        self.computed += len(batch.tokens)

    def submit(self, prompt: list[int], config: GenerationConfig = GREEDY, n: int = 1) -> Submitted:
        return self.scheduler.submit(GenerationRequest(prompt, config, n=n))

    def answer(self, prompt: list[int], config: GenerationConfig = GREEDY) -> Generation:
        submitted = self.submit(prompt, config)
        self.scheduler.run()
        return submitted.ended[0]


def alone(prompt: list[int], config: GenerationConfig = GREEDY) -> tuple[int, ...]:
    return generate(HistoryDecoder(context_length=128), prompt, config).tokens


def test_a_conversation_computes_each_turn_once() -> None:
    bench = Bench()
    prompt, computed = [*SYSTEM, 1], 0
    for turn in range(5):
        generation = bench.answer(prompt)
        assert generation.tokens == alone(prompt)
        if turn:
            # All but the last token of the previous answer was computed, in whole blocks.
            assert generation.cached_tokens == (len(prompt) - 3) // BLOCK * BLOCK
        assert (
            bench.computed - computed == len(prompt) - generation.cached_tokens + len(generation.tokens) - 1
        )
        computed = bench.computed
        prompt = [*prompt, *generation.tokens, 2, turn]
    assert bench.scheduler.snapshot.cached_sequences == 1
    assert bench.scheduler.snapshot.totals.prefix_hits == 4


def test_a_shared_system_prompt_is_computed_once_even_by_those_who_ask_together() -> None:
    bench = Bench()
    asked = [bench.submit([*SYSTEM, user, user]) for user in range(6)]
    bench.scheduler.run()
    for user, submitted in enumerate(asked):
        assert submitted.ended[0].tokens == alone([*SYSTEM, user, user])
    assert [submitted.ended[0].cached_tokens for submitted in asked] == [0, *[len(SYSTEM)] * 5]


def test_the_same_prompt_again_computes_its_last_block() -> None:
    bench = Bench()
    prompt = [*SYSTEM, 1, 2, 3, 4]
    assert bench.answer(prompt).tokens == bench.answer(prompt).tokens == alone(prompt)
    assert bench.answer(prompt).cached_tokens == len(SYSTEM)


def test_another_prompt_gets_nothing_of_it() -> None:
    bench = Bench()
    bench.answer(SYSTEM)
    other = [SYSTEM[0] + 1, *SYSTEM[1:]]
    assert bench.answer(other).cached_tokens == 0
    assert bench.answer(other[:3]).tokens == alone(other[:3])


def test_choices_share_the_prompt() -> None:
    bench = Bench()
    config = GenerationConfig(temperature=1, top_k=0, top_p=1, min_p=0, max_tokens=5, seed=4)
    submitted = bench.submit(SYSTEM, config, n=4)
    bench.scheduler.run()
    assert bench.computed == len(SYSTEM) + 4 * 4
    answers = [submitted.ended[choice].tokens for choice in range(4)]
    decoder = HistoryDecoder(context_length=128)
    assert answers == [generate(decoder, SYSTEM, config, choice=choice).tokens for choice in range(4)]
    assert len(set(answers)) == 4


def test_nothing_is_kept_where_nothing_may_be() -> None:
    bench = Bench(cached_tokens=0)
    bench.answer(SYSTEM)
    assert bench.answer(SYSTEM).cached_tokens == 0
    assert bench.decoder.open_sequences == 0


def test_what_was_not_used_for_longest_goes_first() -> None:
    bench = Bench(cached_tokens=3 * 24)
    prompts = [[start, *SYSTEM] for start in range(3)]
    for prompt in prompts:
        bench.answer(prompt)
    assert bench.answer(prompts[0]).cached_tokens == len(SYSTEM)
    bench.answer([3, *SYSTEM])
    assert bench.answer(prompts[1]).cached_tokens == 0
    assert bench.scheduler.snapshot.kv_used <= 3 * 24


def test_what_is_kept_makes_room_for_what_runs() -> None:
    bench = Bench(kv_capacity=128)
    for start in range(12):
        assert bench.answer([start, *SYSTEM, *SYSTEM]).tokens == alone([start, *SYSTEM, *SYSTEM])
    assert bench.scheduler.snapshot.totals.preemptions == 0
    assert 0 < bench.scheduler.snapshot.cached_sequences <= 3


def test_who_waits_for_memory_keeps_what_its_prompt_begins_with() -> None:
    bench = Bench(kv_capacity=128)
    bench.answer([9, *SYSTEM])
    bench.answer(SYSTEM)
    long = GenerationConfig(temperature=0, max_tokens=10)
    running = [bench.submit([start] * 40, long) for start in range(2)]
    waiting = bench.submit([*SYSTEM, *SYSTEM], long)
    while not running[0].is_done:
        bench.scheduler.step()
        assert not waiting.tokens()
    bench.scheduler.run()
    assert waiting.ended[0].cached_tokens == len(SYSTEM)
    assert bench.scheduler.snapshot.totals.preemptions == 0


def test_a_cancelled_prompt_leaves_what_it_had_computed() -> None:
    bench = Bench()
    prompt = list(range(20)) * 5
    cancelled = bench.submit(prompt)
    bench.scheduler.step()
    cancelled.cancel()
    bench.scheduler.run()
    assert cancelled.ended[0].tokens == ()
    again = bench.answer(prompt)
    assert (again.cached_tokens, again.tokens) == (16, alone(prompt))


class Resuming(HistoryDecoder):
    """A decoder that can go on only from every third block, as one with recurrent state."""

    def resume_length(self, sequence: int, length: int) -> int:
        return super().resume_length(sequence, length) // 12 * 12


def test_a_decoder_that_resumes_at_checkpoints_only_is_resumed_there() -> None:
    decoder = Resuming(context_length=128)
    scheduler = StepwiseScheduler(decoder)
    for expected in (0, 12, 12):
        submitted = scheduler.submit(GenerationRequest(SYSTEM, GREEDY))
        scheduler.run()
        assert submitted.ended[0].tokens == alone(SYSTEM)
        assert submitted.ended[0].cached_tokens == expected
    scheduler.close()
    assert decoder.open_sequences == 0


class Keeping(HistoryDecoder):
    """A decoder that can go on from where a sequence ends, and from its last whole block, as with states."""

    prefix_tokens = 16

    def resume_length(self, sequence: int, length: int) -> int:
        own = super().resume_length(sequence, 10**9)
        whole = own // self.block_tokens * self.block_tokens
        return own if own <= length else whole if whole <= length else 0


@pytest.mark.parametrize(
    ("shared", "first", "waits", "cached"),
    [
        (12, 4, False, 0),  # less than a block
        (20, 4, True, 16),  # the last whole block of the first
        (35, 5, True, 32),
        (20, 30, False, 0),  # the first goes on, and keeps nothing there
        (40, 80, False, 0),
    ],
)
def test_nobody_waits_for_a_prefix_that_will_not_be_kept(
    shared: int, first: int, waits: bool, cached: int
) -> None:
    scheduler = StepwiseScheduler(Keeping(context_length=256, block_tokens=16))
    scheduler.submit(GenerationRequest([5] * 200, GREEDY))
    scheduler.run()  # from now on a step takes more than a prompt, if it may
    stem = [7, 8, 9, 10] * 10
    prompts = [[*stem[:shared], *[1] * first], [*stem[:shared], 2, 2, 2]]
    asked = [scheduler.submit(GenerationRequest(prompt, GREEDY)) for prompt in prompts]
    scheduler.step()
    assert scheduler.snapshot.waiting == waits
    scheduler.run()
    assert [submitted.ended[0].tokens for submitted in asked] == [alone(prompt) for prompt in prompts]
    assert asked[1].ended[0].cached_tokens == cached


class Sliding(HistoryDecoder):
    """A decoder that can go back by 15 tokens, as with windows."""

    def resume_length(self, sequence: int, length: int) -> int:
        own = super().resume_length(sequence, 10**9)
        return min(length, own) if own - length < 16 else 0


@pytest.mark.parametrize("kind", [Keeping, Sliding])
def test_of_those_who_share_a_prefix_the_one_is_gone_on_from_that_has_kept_it(
    kind: type[HistoryDecoder],
) -> None:
    decoder = kind(context_length=256, block_tokens=16)
    scheduler = StepwiseScheduler(decoder)
    stem = [7, 8, 9, 10] * 8
    endless = GenerationConfig(temperature=0, max_tokens=100, ignore_eos=True)
    scheduler.submit(GenerationRequest([*stem, *[1] * 60], endless))
    for tail, cached in ([2, 3], 0), ([4, 5], 32):
        asked = scheduler.submit(GenerationRequest([*stem, *tail], GREEDY))
        while not asked.is_done:
            scheduler.step()
        assert (asked.ended[0].cached_tokens, asked.ended[0].tokens) == (cached, alone([*stem, *tail]))
    assert scheduler.snapshot.decoding == 1


@settings(max_examples=60)
@given(
    st.lists(st.lists(st.integers(0, 1), max_size=20), max_size=8), st.lists(st.integers(0, 1), max_size=20)
)
def test_the_tree_finds_the_longest_common_prefix_in_blocks(
    paths: list[list[int]], wanted: list[int]
) -> None:
    tree = PrefixTree(2)
    held = [Path(tree.root) for _ in paths]
    for path, tokens in zip(held, paths, strict=True):
        tree.extend(path, np.array(tokens, np.int32))
    nodes = list(tree.walk(np.array(wanted, np.int32)))
    common = [common_blocks(tokens, wanted) for tokens in paths]
    assert [node.depth for node in nodes] == list(range(1, max(common, default=0) + 1))
    for node in nodes:
        assert set(node.holders) == {
            path for path, blocks in zip(held, common, strict=True) if blocks >= node.depth
        }
    for path in held:
        tree.shorten(path, 0)
    assert tree.blocks == 0 and not tree.root.children


@settings(max_examples=60)
@given(st.lists(st.lists(st.integers(0, 1), max_size=13), max_size=8))
def test_the_tree_counts_a_block_for_all_that_go_on_differently_within_it(paths: list[list[int]]) -> None:
    tree = PrefixTree(2, strides_per_block=3)
    held = [Path(tree.root) for _ in paths]
    for path, tokens in zip(held, paths, strict=True):
        tree.extend(path, np.array(tokens, np.int32))
    for index in range(len(paths) + 1):
        assert tree.blocks == len(blocks_of_six(paths[index:]))
        if index < len(paths):
            tree.shorten(held[index], 0)


def blocks_of_six(paths: list[list[int]]) -> set[tuple[int, ...]]:
    """Return the prefixes that end with a block of 6 tokens, or within one where nothing goes on from it."""
    whole = [tuple(tokens[: len(tokens) // 2 * 2]) for tokens in paths]
    ends = {tokens[:end] for tokens in whole for end in (*range(6, len(tokens), 6), len(tokens)) if end}
    return {
        end
        for end in ends
        if len(end) % 6 == 0 or not any(other != end and other[: len(end)] == end for other in ends)
    }


def common_blocks(one: list[int], other: list[int]) -> int:
    blocks = 0
    while len(one) >= 2 * blocks + 2 and one[: 2 * blocks + 2] == other[: 2 * blocks + 2]:
        blocks += 1
    return blocks


def test_what_is_shared_may_end_within_a_block() -> None:
    bench = Bench(block_tokens=32)
    stem = [7, 8, 9, 10] * 9
    asked = [bench.submit([*stem, user, user]) for user in range(3)]
    bench.scheduler.run()
    for user, submitted in enumerate(asked):
        assert submitted.ended[0].tokens == alone([*stem, user, user])
    assert [submitted.ended[0].cached_tokens for submitted in asked] == [0, 32, 32]
    later = bench.answer([*stem[:20], 5])
    assert (later.cached_tokens, later.tokens) == (16, alone([*stem[:20], 5]))
    following = [*stem, 1, 1, *asked[1].ended[0].tokens, 3]
    again = bench.answer(following)
    assert (again.cached_tokens, again.tokens) == (40, alone(following))


@pytest.mark.parametrize("length", [0, 3, 4, 9])
def test_only_whole_blocks_are_kept(length: int) -> None:
    decoder = HistoryDecoder(block_tokens=BLOCK)
    pool = SequencePool(decoder)
    tokens = np.arange(10, dtype=np.int32)
    held = pool.open(pool.match(tokens))
    pool.promise(held, tokens)
    rows = np.arange(length, dtype=np.int32)
    decoder.forward(Batch(np.full(length, held.handle, np.int32), rows, tokens[:length], rows[:0]))
    pool.grow(held, length, tokens)
    pool.close(held, keep=True)
    assert decoder.kv_used == length // BLOCK * BLOCK
    assert pool.match(tokens).length == length // BLOCK * BLOCK
