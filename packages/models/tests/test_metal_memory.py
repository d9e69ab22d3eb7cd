"""What the Metal backend takes of memory, and what it leaves there."""

import gc
from pathlib import Path

import numpy as np
import pytest
from rase_core.decoder import Batch
from rase_models import load_decoder
from rase_models.decoder import ProgramDecoder
from rase_models.testing_sketches import sketch, write_gguf

mx = pytest.importorskip("mlx.core", reason="MLX is not installed: pip install 'rase-models[metal]'")

from rase_models.backends.metal.runner import MetalRunner  # noqa: E402

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3]


def loaded(folder: Path, architecture: str) -> tuple[ProgramDecoder, MetalRunner]:
    path = write_gguf(folder / "model.gguf", architecture, *sketch(architecture))
    decoder = load_decoder(path, device="metal")
    assert isinstance(decoder, ProgramDecoder)
    assert isinstance(decoder._runner, MetalRunner)
    return decoder, decoder._runner


def batch(*parts: tuple[int, int, list[int]]) -> Batch:
    """Return a step of (sequence, position, tokens), with outputs after the last token of each."""
    counts = [len(tokens) for _, _, tokens in parts]
    sequences = np.repeat([sequence for sequence, _, _ in parts], counts)
    positions = np.concatenate([np.arange(start, start + len(tokens)) for _, start, tokens in parts])
    arrays = (sequences, positions, np.concatenate([t for _, _, t in parts]), np.cumsum(counts) - 1)
    return Batch(*(array.astype(np.int32) for array in arrays))


def peak_of(decoder: ProgramDecoder, step: Batch) -> int:
    """Return the bytes that a step takes beside those that are in use."""
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    decoder.forward(step)
    return int(mx.get_peak_memory() - before)


def test_a_step_of_prompts_and_answers_copies_no_cache(tmp_path: Path) -> None:
    decoder, runner = loaded(tmp_path, "llama")
    first, second = decoder.new_sequence(), decoder.new_sequence()
    decoder.forward(batch((first, 0, TOKENS), (second, 0, TOKENS[:3])))
    small = peak_of(decoder, batch((first, 10, [7]), (second, 3, TOKENS[:3])))
    runner.reserve(0, 4000)
    nbytes = runner._caches[0].keys.nbytes
    assert peak_of(decoder, batch((first, 11, [7]), (second, 6, TOKENS[:3]))) < small + nbytes / 4


@pytest.mark.parametrize("architecture", ["mamba2", "qwen35", "rwkv7"])
def test_a_step_copies_no_states_of_other_sequences(architecture: str, tmp_path: Path) -> None:
    decoder, runner = loaded(tmp_path, architecture)
    first, second = decoder.new_sequence(), decoder.new_sequence()
    decoder.forward(batch((first, 0, TOKENS), (second, 0, TOKENS[:3])))
    small = peak_of(decoder, batch((first, 10, [7]), (second, 3, TOKENS[:3])))
    runner.reserve_states(500)
    nbytes = 4 * 500 * sum(runner._program.state_sizes)
    assert peak_of(decoder, batch((first, 11, [7]), (second, 6, TOKENS[:3]))) < small + nbytes / 10


def test_a_fork_that_writes_on_copies_one_block_and_no_cache(tmp_path: Path) -> None:
    decoder, runner = loaded(tmp_path, "llama")
    decoder.forward(batch((decoder.new_sequence(), 0, TOKENS)))
    runner.reserve(0, 4000)
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    runner.copy_block(0, 0, 3000)
    assert mx.get_peak_memory() - before < runner._caches[0].keys.nbytes / 4
    for cache in runner._caches:
        np.testing.assert_array_equal(np.array(cache.keys[3000]), np.array(cache.keys[0]))
        np.testing.assert_array_equal(np.array(cache.values[3000]), np.array(cache.values[0]))
        assert np.abs(np.array(cache.values[3000])).sum() > 0


def test_a_cache_that_grows_takes_what_room_was_checked_for(tmp_path: Path) -> None:
    decoder, runner = loaded(tmp_path, "llama")
    decoder.prefill(TOKENS)
    cache = runner._caches[0]
    held = np.array(cache.keys)
    for blocks in (3000, 4000):
        mx.clear_cache()
        before, needed = mx.get_active_memory(), cache.growth_nbytes(blocks)
        mx.reset_peak_memory()
        cache.reserve(blocks)
        assert needed <= mx.get_peak_memory() - before < 1.01 * needed
        np.testing.assert_array_equal(np.array(cache.keys[: len(held)]), held)
        assert not np.array(cache.keys[len(held) :]).any()


@pytest.mark.parametrize("architecture", ["llama", "gemma2", "mpt"])
def test_what_others_left_in_a_block_does_not_spoil_a_sequence(architecture: str, tmp_path: Path) -> None:
    decoder, runner = loaded(tmp_path, architecture)
    wanted = np.asarray(load_decoder(tmp_path / "model.gguf", device="metal").logits(TOKENS))
    for group in range(len(runner._groups)):
        runner.reserve(group, 4)
    for cache in runner._caches:
        cache.keys, cache.values = (mx.full(array.shape, mx.nan) for array in (cache.keys, cache.values))
    mx.eval(runner._cached())
    np.testing.assert_array_equal(decoder.logits(TOKENS), wanted)
    prefilled = np.asarray(decoder.prefill(TOKENS[:-1])), np.asarray(decoder.decode(TOKENS[-1]))
    np.testing.assert_allclose(np.stack(prefilled), wanted[-2:], rtol=1e-4, atol=1e-4)


def test_a_model_that_is_closed_gives_its_memory_back(tmp_path: Path) -> None:
    gc.collect()
    before = mx.get_active_memory()
    for architecture in ("llama", "mamba2"):
        (tmp_path / architecture).mkdir()
        for _ in range(2):
            decoder, _ = loaded(tmp_path / architecture, architecture)
            decoder.prefill(TOKENS)
            assert mx.get_active_memory() > before
            decoder.close()
            assert mx.get_active_memory() <= before + 4096
