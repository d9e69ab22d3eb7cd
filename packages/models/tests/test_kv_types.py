"""Types of keys and values, and layers that keep only a window, in whole decoders."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from rase_core.decoder import Batch
from rase_core.errors import InvalidParameter
from rase_models.architectures import build_program
from rase_models.backends import load_backend
from rase_models.backends.base import BLOCK_TOKENS
from rase_models.decoder import ProgramDecoder
from rase_models.gguf import open_gguf
from rase_models.kv_budget import KvBudget
from rase_models.kv_type import KvType
from rase_models.loading import load_decoder
from rase_models.testing_sketches import VOCAB, sketch, write_gguf

CONTEXT, WINDOW = 1024, 70
TOKENS = np.random.default_rng(1).integers(0, VOCAB, 700).astype(np.int32)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of which every fourth layer sees everything, the others a window."""
    metadata, tensors = sketch("cohere2", layers=4)
    metadata |= {"context_length": CONTEXT, "attention.sliding_window": WINDOW}
    return write_gguf(tmp_path_factory.mktemp("windows") / "cohere2.gguf", "cohere2", metadata, tensors)


@pytest.fixture(scope="module", params=["cpu", "reference"])
def decoder(request: pytest.FixtureRequest, path: Path) -> Iterator[ProgramDecoder]:
    made = load_decoder(path, request.param)
    yield made
    made.close()


def append(
    decoder: ProgramDecoder, sequence: int, start: int, tokens: NDArray[np.int32]
) -> NDArray[np.float32]:
    count = len(tokens)
    positions = np.arange(start, start + count, dtype=np.int32)
    every = np.arange(count, dtype=np.int32)
    return decoder.forward(Batch(np.full(count, sequence, np.int32), positions, tokens, every))


def test_windows_keep_less_and_change_no_bit(decoder: ProgramDecoder) -> None:
    whole = decoder.new_sequence()
    want = append(decoder, whole, 0, TOKENS)
    used = decoder.kv_used
    assert len(TOKENS) / 4 <= used < len(TOKENS) / 2 + 2 * WINDOW
    decoder.release(whole)
    for steps in ([1] * 700, [300, 1, 1, 62, 200, 136]):
        sequence, start = decoder.new_sequence(), 0
        for step in steps:
            got = append(decoder, sequence, start, TOKENS[start : start + step])
            np.testing.assert_allclose(got, want[start : start + step], atol=2e-4)
            if decoder.threads is not None:  # the CPU backend promises bits
                np.testing.assert_array_equal(got, want[start : start + step])
            start += step
        assert decoder.kv_used <= used
        decoder.release(sequence)


def test_a_fork_goes_on_where_the_window_is_whole(decoder: ProgramDecoder) -> None:
    sequence = decoder.new_sequence()
    want = append(decoder, sequence, 0, TOKENS[:500])
    wanted = 500 - 500 % BLOCK_TOKENS
    assert [decoder.resume_length(sequence, length) for length in (600, wanted, 100)] == [500, wanted, 0]
    child = decoder.fork(sequence, wanted)
    np.testing.assert_allclose(append(decoder, child, wanted, TOKENS[wanted:500]), want[wanted:], atol=2e-4)
    with pytest.raises(ValueError, match="cannot go on from 100 tokens"):
        decoder.fork(sequence, 100)
    with pytest.raises(ValueError, match="cannot go on from 100 tokens"):
        decoder.truncate(sequence, 100)
    for handle in (sequence, child):
        decoder.release(handle)
    assert decoder.kv_used == 0


@pytest.mark.parametrize("kv_type", KvType)
def test_each_type_is_as_near_as_its_bits_allow(path: Path, kv_type: KvType) -> None:
    want = load_decoder(path, "reference").logits(TOKENS[:300])
    decoder = load_decoder(path, "cpu", kv_type=kv_type)
    error = np.square(decoder.logits(TOKENS[:300]) - want).mean() / np.square(want).mean()
    decoder.close()
    assert error < {KvType.F32: 1e-9, KvType.F16: 1e-5, KvType.Q8_0: 2e-3}[kv_type]


def test_a_block_has_the_size_of_its_type(path: Path) -> None:
    program, backend = build_program(open_gguf(path)), load_backend("cpu")
    values = BLOCK_TOKENS * sum(group.values for group in program.kv_groups)
    sizes = [backend.block_nbytes(program, kv_type) / values for kv_type in KvType]
    # a float16 scale for each head of 16, where there would be one for 32
    assert sizes == [4, 2, 1 + 2 / 16]
    assert backend.block_nbytes(program) == 2 * values


def test_a_smaller_type_makes_room_for_a_longer_context(path: Path) -> None:
    budget = KvBudget(load_backend("cpu").block_nbytes(build_program(open_gguf(path)), KvType.F32) * 6)
    lengths = []
    for kv_type in KvType:
        decoder = load_decoder(path, "cpu", kv_budget=budget, kv_type=kv_type)
        lengths.append(decoder.context_length)
        sequence = decoder.new_sequence()
        append(decoder, sequence, 0, np.resize(TOKENS, decoder.context_length))
        decoder.close()
    assert lengths == sorted(lengths) and lengths[0] < lengths[-1]


@pytest.mark.parametrize(("device", "kv_type"), [("cpu", "q4_0"), ("reference", "f16")])
def test_a_type_that_a_device_does_not_have_is_refused(path: Path, device: str, kv_type: str) -> None:
    with pytest.raises(InvalidParameter, match=f"invalid kv_type: '{kv_type}', expected one of f"):
        load_decoder(path, device, kv_type=kv_type)
