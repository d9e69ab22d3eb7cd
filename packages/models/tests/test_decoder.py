"""Decoding over a KV cache: the same tokens give the same logits, however they came in."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from rase_core.decoder import Batch, BatchDecoder, TokenDecoder
from rase_core.errors import BackendFailure, Cancelled, ContextOverflow, InvalidParameter
from rase_models.architectures import build_program
from rase_models.backends import load_backend
from rase_models.backends.base import BLOCK_TOKENS, Rows, Runner
from rase_models.decoder import ProgramDecoder
from rase_models.gguf import GgufFile, open_gguf
from rase_models.program import Program
from rase_models.testing import VOCABULARY, write_tiny_model

CONTEXT = 300
VOCAB = len(VOCABULARY)
EOS = frozenset({3, 7})


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> GgufFile:
    return open_gguf(
        write_tiny_model(tmp_path_factory.mktemp("model") / "tiny.gguf", context_length=2 * CONTEXT)
    )


@pytest.fixture(scope="module")
def program(file: GgufFile) -> Program:
    return build_program(file)


@pytest.fixture(scope="module")
def runner(file: GgufFile, program: Program) -> Runner:
    return load_backend("reference").load(program, file.weights())


class SmallRuns:
    """A runner of few rows at a time, that counts them and fails when told to."""

    def __init__(self, runner: Runner, max_rows: int) -> None:
        self.runner = runner
        self.max_rows = max_rows
        self.threads, self.cheap_rows = runner.threads, runner.cheap_rows
        self.row_counts: list[int] = []
        self.fail_after: int | None = None

    def reserve(self, group: int, blocks: int) -> None:
        self.runner.reserve(group, blocks)

    def copy_block(self, group: int, source: int, target: int) -> None:
        self.runner.copy_block(group, source, target)

    def run(self, rows: Rows) -> NDArray[np.float32]:
        if self.fail_after is not None and len(self.row_counts) >= self.fail_after:
            raise BackendFailure("a fault that was asked for")
        self.row_counts.append(len(rows.tokens))
        return self.runner.run(rows)

    def close(self) -> None:
        self.runner.close()


@pytest.fixture
def small(runner: Runner) -> SmallRuns:
    return SmallRuns(runner, 7)


@pytest.fixture
def decoder(program: Program, small: SmallRuns) -> ProgramDecoder:
    return ProgramDecoder(program, small, EOS, CONTEXT)


@pytest.fixture(scope="module")
def whole(file: GgufFile, program: Program) -> ProgramDecoder:
    """A decoder that takes all rows at once, over a runner and so a cache of its own."""
    return ProgramDecoder(program, load_backend("reference").load(program, file.weights()), EOS, CONTEXT)


def tokens_of(seed: int, count: int) -> list[int]:
    return [int(token) for token in np.random.default_rng(seed).integers(0, VOCAB, count)]


def batch_of(*rows: tuple[int, int, Sequence[int]], outputs: Sequence[int] | None = None) -> Batch:
    """Return the batch that appends tokens to sequences at positions; all rows are wanted by default."""
    count = sum(len(tokens) for _, _, tokens in rows)
    return Batch(
        np.array([sequence for sequence, _, tokens in rows for _ in tokens], np.int32),
        np.array([start + i for _, start, tokens in rows for i in range(len(tokens))], np.int32),
        np.array([token for _, _, tokens in rows for token in tokens], np.int32),
        np.array(range(count) if outputs is None else outputs, np.int32),
    )


def assert_same(got: NDArray[np.float32], want: NDArray[np.float32]) -> None:
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3 * float(np.abs(want).max()))


def test_the_decoder_has_both_contracts(decoder: ProgramDecoder) -> None:
    as_token_decoder: TokenDecoder = decoder
    as_batch_decoder: BatchDecoder = decoder
    assert isinstance(as_token_decoder, TokenDecoder) and as_batch_decoder is decoder
    assert (decoder.vocab_size, decoder.context_length, decoder.eos_tokens) == (VOCAB, CONTEXT, EOS)


def test_the_context_is_the_model_s_unless_a_shorter_one_is_given(program: Program, runner: Runner) -> None:
    assert ProgramDecoder(program, runner, EOS).context_length == program.context_length


def test_a_pool_of_blocks_limits_all_sequences_together(program: Program, small: SmallRuns) -> None:
    decoder = ProgramDecoder(program, small, EOS, kv_capacity=2 * BLOCK_TOKENS + 5)
    assert decoder.kv_capacity == decoder.context_length == 2 * BLOCK_TOKENS
    one, two = decoder.new_sequence(), decoder.new_sequence()
    decoder.forward(batch_of((one, 0, tokens_of(1, BLOCK_TOKENS + 1))))
    assert decoder.kv_used == 2 * BLOCK_TOKENS
    assert decoder.fits({one: BLOCK_TOKENS - 1}) and not decoder.fits({one: 1, two: 1})
    with pytest.raises(BackendFailure, match="no memory"):
        decoder.forward(batch_of((two, 0, [1])))
    decoder.release(one)
    assert decoder.fits({two: 2 * BLOCK_TOKENS})


def test_prefill_and_decode_agree_with_all_logits_at_once(
    decoder: ProgramDecoder, whole: ProgramDecoder
) -> None:
    tokens = tokens_of(1, 2 * BLOCK_TOKENS)
    want = whole.logits(tokens)
    split = BLOCK_TOKENS - 3
    assert_same(decoder.prefill(tokens[:split]), want[split - 1])
    for i in range(split, len(tokens)):
        assert_same(decoder.decode(tokens[i]), want[i])


def test_logits_have_a_row_for_every_token_in_any_chunks(
    decoder: ProgramDecoder, whole: ProgramDecoder, small: SmallRuns
) -> None:
    tokens = tokens_of(2, 25)
    assert_same(decoder.logits(tokens), whole.logits(np.array(tokens)))
    assert small.row_counts == [7, 7, 7, 4]


def test_no_tokens_have_no_logits(decoder: ProgramDecoder) -> None:
    assert decoder.logits([]).shape == (0, VOCAB)


def test_prefill_starts_over(decoder: ProgramDecoder) -> None:
    first = decoder.prefill([1, 2, 3])
    decoder.decode(4)
    np.testing.assert_array_equal(decoder.prefill([1, 2, 3]), first)


def test_logits_belong_to_the_caller(decoder: ProgramDecoder) -> None:
    first = decoder.prefill([1, 2, 3])
    kept = first.copy()
    decoder.decode(4)
    np.testing.assert_array_equal(first, kept)
    assert first.shape == (VOCAB,) and first.dtype == np.float32


def test_the_same_tokens_give_the_same_bits(decoder: ProgramDecoder) -> None:
    np.testing.assert_array_equal(decoder.logits(tokens_of(3, 40)), decoder.logits(tokens_of(3, 40)))


def test_single_and_batched_sequences_do_not_disturb_each_other(decoder: ProgramDecoder) -> None:
    alone = decoder.prefill([5, 6]), decoder.decode(7)
    decoder.prefill([5, 6])
    sequence = decoder.new_sequence()
    decoder.forward(batch_of((sequence, 0, tokens_of(4, 20))))
    decoder.logits([9, 9, 9])
    assert_same(decoder.decode(7), alone[1])


SIZES = st.integers(1, 70)


@settings(
    max_examples=6,
    suppress_health_check=[*settings().suppress_health_check, HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_sequences_that_fork_and_go_back_give_the_logits_of_their_tokens(
    decoder: ProgramDecoder, whole: ProgramDecoder, data: st.DataObject
) -> None:
    used = decoder.kv_used
    held: dict[int, list[int]] = {decoder.new_sequence(): [] for _ in range(2)}
    for _ in range(data.draw(st.integers(1, 5))):
        change(decoder, held, data)
        chosen = data.draw(st.lists(st.sampled_from(list(held)), min_size=1, unique=True))
        parts = [(s, len(held[s]), tokens_of(len(held[s]) + s, data.draw(SIZES))) for s in chosen]
        parts = [(s, start, tokens[: CONTEXT - start]) for s, start, tokens in parts]
        got = decoder.forward(batch_of(*parts))
        want = []
        for sequence, start, tokens in parts:
            held[sequence] = held[sequence] + tokens
            want.append(whole.logits(held[sequence])[start:])
        assert_same(got, np.concatenate(want))
    for sequence in held:
        decoder.release(sequence)
    assert decoder.kv_used == used


def change(decoder: ProgramDecoder, held: dict[int, list[int]], data: st.DataObject) -> None:
    """Fork or shorten a sequence."""
    sequence = data.draw(st.sampled_from(list(held)))
    length = data.draw(st.integers(0, len(held[sequence])))
    assert decoder.resume_length(sequence, length) == length
    if data.draw(st.booleans()):
        held[decoder.fork(sequence, length)] = held[sequence][:length]
    else:
        decoder.truncate(sequence, length)
        held[sequence] = held[sequence][:length]


def test_only_the_marked_rows_are_returned(decoder: ProgramDecoder, whole: ProgramDecoder) -> None:
    tokens = tokens_of(5, 20)
    a, b = decoder.new_sequence(), decoder.new_sequence()
    got = decoder.forward(batch_of((a, 0, tokens[:9]), (b, 0, tokens), outputs=[8, 28]))
    assert_same(got, np.stack([whole.logits(tokens[:9])[-1], whole.logits(tokens)[-1]]))


def test_a_batch_may_want_no_logits_at_all(decoder: ProgramDecoder, whole: ProgramDecoder) -> None:
    tokens = tokens_of(6, 20)
    sequence = decoder.new_sequence()
    assert decoder.forward(batch_of((sequence, 0, tokens[:-1]), outputs=[])).shape == (0, VOCAB)
    assert_same(decoder.forward(batch_of((sequence, 19, tokens[-1:]))), whole.logits(tokens)[-1:])


def test_an_empty_batch_does_nothing(decoder: ProgramDecoder) -> None:
    assert decoder.forward(batch_of()).shape == (0, VOCAB)


def test_resuming_never_goes_past_what_is_held(decoder: ProgramDecoder) -> None:
    sequence = decoder.new_sequence()
    decoder.forward(batch_of((sequence, 0, [1, 2, 3])))
    assert decoder.resume_length(sequence, 10) == 3


@pytest.mark.parametrize("tokens", [[-1], [VOCAB], [0, 1 << 40], [1 << 70], [0.5], ["a"], [[1, 2]], [True]])
def test_token_ids_outside_the_vocabulary_are_refused(decoder: ProgramDecoder, tokens: list[int]) -> None:
    before = decoder.prefill([1, 2])
    for use in (decoder.prefill, decoder.logits, lambda tokens: decoder.decode(tokens[-1])):
        with pytest.raises(InvalidParameter, match="token ids"):
            use(tokens)
    decoder.truncate(0, 1)
    assert_same(decoder.decode(2), before)


def test_a_prompt_that_is_empty_is_refused(decoder: ProgramDecoder) -> None:
    with pytest.raises(InvalidParameter, match="at least one token"):
        decoder.prefill([])


def test_what_does_not_fit_the_context_is_refused_and_nothing_is_lost(decoder: ProgramDecoder) -> None:
    decoder.prefill(tokens_of(7, CONTEXT))
    with pytest.raises(ContextOverflow, match=f"has {CONTEXT + 1} tokens, but .* {CONTEXT} tokens"):
        decoder.decode(1)
    with pytest.raises(ContextOverflow):
        decoder.prefill(tokens_of(7, CONTEXT + 1))
    with pytest.raises(ContextOverflow):
        decoder.logits(tokens_of(7, CONTEXT + 1))
    assert decoder.resume_length(0, CONTEXT) == CONTEXT


def refused_batches(sequence: int, other: int) -> dict[str, Batch]:
    good = batch_of((sequence, 3, [1, 2, 3]), (other, 0, [4, 5]))
    return {
        "rows that do not follow": batch_of((sequence, 4, [1])),
        "rows again": batch_of((sequence, 2, [1])),
        "positions with a gap": replace(good, positions=np.array([3, 5, 6, 0, 1], np.int32)),
        "rows not adjacent": replace(
            good, sequences=np.array([sequence, other, other, sequence, sequence], np.int32)
        ),
        "an unknown sequence": batch_of((sequence, 3, [1]), (99, 0, [1])),
        "outputs out of order": replace(good, outputs=np.array([2, 1], np.int32)),
        "outputs twice": replace(good, outputs=np.array([1, 1], np.int32)),
        "outputs outside": replace(good, outputs=np.array([5], np.int32)),
        "arrays of unequal length": replace(good, tokens=np.array([1, 2], np.int32)),
        "arrays of two dimensions": replace(good, tokens=np.array([[1, 2]], np.int32)),
        "arrays of another type": replace(good, tokens=np.array([1, 2, 3, 4, 5], np.int64)),
        "a token outside the vocabulary": replace(good, tokens=np.array([1, 2, VOCAB, 4, 5], np.int32)),
        "more than the context": batch_of((other, 0, [1]), (sequence, 3, [1] * CONTEXT)),
    }


@pytest.mark.parametrize("case", refused_batches(1, 2))
def test_a_batch_that_is_refused_changes_nothing(decoder: ProgramDecoder, case: str) -> None:
    sequence, other = decoder.new_sequence(), decoder.new_sequence()
    decoder.forward(batch_of((sequence, 0, [7, 8, 9])))
    used = decoder.kv_used
    with pytest.raises((ValueError, KeyError, InvalidParameter, ContextOverflow)):
        decoder.forward(refused_batches(sequence, other)[case])
    assert decoder.kv_used == used
    assert (decoder.resume_length(sequence, 99), decoder.resume_length(other, 99)) == (3, 0)


def test_a_failure_of_the_backend_leaves_the_sequences_as_they_were(
    decoder: ProgramDecoder, small: SmallRuns, whole: ProgramDecoder
) -> None:
    sequence, tokens = decoder.new_sequence(), tokens_of(8, 90)
    decoder.forward(batch_of((sequence, 0, tokens[:30])))
    used, small.fail_after = decoder.kv_used, len(small.row_counts) + 3
    with pytest.raises(BackendFailure):
        decoder.forward(batch_of((sequence, 30, tokens[30:])))
    assert (decoder.kv_used, decoder.resume_length(sequence, 99)) == (used, 30)
    small.fail_after = None
    assert_same(decoder.forward(batch_of((sequence, 30, tokens[30:]))), whole.logits(tokens)[30:])


def test_a_prefill_can_be_cancelled_between_chunks(decoder: ProgramDecoder, small: SmallRuns) -> None:
    with pytest.raises(Cancelled):
        decoder.prefill(tokens_of(9, 50), cancelled=lambda: len(small.row_counts) == 2)
    assert small.row_counts == [7, 7]
    assert decoder.kv_used == 0


class FullToReserve(SmallRuns):
    def reserve(self, group: int, blocks: int) -> None:
        raise MemoryError


class FullToRun(SmallRuns):
    def run(self, rows: Rows) -> NDArray[np.float32]:
        if len(self.row_counts) == 1:
            raise MemoryError
        return super().run(rows)


@pytest.mark.parametrize("full", [FullToReserve, FullToRun])
def test_memory_that_does_not_suffice_is_a_named_error(
    program: Program, runner: Runner, full: type[SmallRuns]
) -> None:
    decoder = ProgramDecoder(program, full(runner, 7), EOS, CONTEXT)
    for use in (decoder.prefill, decoder.logits):
        with pytest.raises(BackendFailure, match="no memory for 9 more tokens"):
            use([1, 2, 3, 4, 5, 6, 7, 8, 9])
        assert decoder.kv_used == 0


def test_closing_twice_is_closing_once(file: GgufFile, program: Program) -> None:
    decoder = ProgramDecoder(program, load_backend("reference").load(program, file.weights()), EOS)
    decoder.close()
    decoder.close()
