"""Decoders of programs with states: many ways through the same tokens, the same results."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from rase_core.decoder import Batch
from rase_core.errors import BackendFailure
from rase_core.generation import generate
from rase_core.sampling import GenerationConfig
from rase_core.scheduler import GenerationRequest, Scheduler, SchedulerLimits
from rase_models.decoder import ProgramDecoder
from rase_models.loading import load_decoder
from rase_models.step import Step
from rase_models.testing_sketches import CONTEXT, VOCAB, sketch, write_gguf

ARCHITECTURES = ("jamba", "lfm2", "mamba2", "qwen35", "rwkv7")
LENGTH = 200
TOKENS = np.random.default_rng(0).integers(0, VOCAB, LENGTH).astype(np.int32)

Floats = NDArray[np.float32]


@pytest.fixture(params=[(name, device) for name in ARCHITECTURES for device in ("reference", "cpu")])
def decoder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ProgramDecoder]:
    """Every architecture with states on every device."""
    name, device = request.param
    metadata, tensors = sketch(name, layers=2)
    path = write_gguf(tmp_path / "model.gguf", name, metadata | {"context_length": 4 * CONTEXT}, tensors)
    loaded = load_decoder(path, device, threads=2)
    yield loaded
    loaded.close()


def batch(*spans: tuple[int, int, int]) -> Batch:
    """Return rows of (sequence, start, end), all of them outputs."""
    sequences = np.concatenate([np.full(end - start, sequence, np.int32) for sequence, start, end in spans])
    positions = np.concatenate([np.arange(start, end, dtype=np.int32) for _, start, end in spans])
    return Batch(sequences, positions, TOKENS[positions], np.arange(len(positions), dtype=np.int32))


def same(got: Floats, want: Floats) -> None:
    np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-4)


def test_tokens_one_by_one_in_chunks_and_all_at_once_give_the_same(decoder: ProgramDecoder) -> None:
    want = decoder.logits(TOKENS)
    same(decoder.prefill(TOKENS[:100]), want[99])
    same(np.array([decoder.decode(int(token)) for token in TOKENS[100:110]]), want[100:110])
    sequence = decoder.new_sequence()
    parts = [decoder.forward(batch((sequence, start, start + 40))) for start in range(0, 160, 40)]
    same(np.concatenate(parts), want[:160])
    assert np.abs(decoder.logits(TOKENS[1:20])[-1] - want[19]).max() > 0.01


def test_sequences_do_not_mix_and_their_outputs_keep_their_order(decoder: ProgramDecoder) -> None:
    want = decoder.logits(TOKENS)
    first, second, third = (decoder.new_sequence() for _ in range(3))
    decoder.forward(batch((first, 0, 30)))
    got = decoder.forward(batch((third, 0, 70), (first, 30, 100), (second, 0, 20)))
    same(got, np.concatenate([want[:70], want[30:100], want[:20]]))
    same(decoder.forward(batch((second, 20, 21), (first, 100, 101))), want[[20, 100]])


def test_a_sequence_goes_on_from_whole_blocks(decoder: ProgramDecoder) -> None:
    want = decoder.logits(TOKENS)
    sequence = decoder.new_sequence()
    decoder.forward(batch((sequence, 0, 140)))
    lengths = [decoder.resume_length(sequence, length) for length in (63, 64, 127, 128, 139, 140, 150)]
    assert lengths == [0, 0, 0, 128, 128, 140, 140]
    fork, whole, empty = (decoder.fork(sequence, length) for length in (128, 140, 0))
    same(decoder.forward(batch((fork, 128, 150))), want[128:150])
    same(decoder.forward(batch((whole, 140, 145), (empty, 0, 5))), want[[*range(140, 145), *range(5)]])
    for length in (130, 64, -1):
        with pytest.raises(ValueError, match=f"cannot go on from {length} tokens"):
            decoder.fork(sequence, length)
    decoder.truncate(sequence, 128)
    same(decoder.forward(batch((sequence, 128, 131))), want[128:131])


def test_decoding_keeps_copies_too(decoder: ProgramDecoder) -> None:
    want = decoder.logits(TOKENS)
    sequence = decoder.new_sequence()
    decoder.forward(batch((sequence, 0, 60)))
    for position in range(60, 70):
        decoder.forward(batch((sequence, position, position + 1)))
    assert decoder.resume_length(sequence, 69) == 64
    fork = decoder.fork(sequence, 64)
    decoder.release(sequence)
    same(decoder.forward(batch((fork, 64, 80))), want[64:80])


def test_a_failed_run_costs_no_more_than_the_tokens_since_the_last_copy(
    decoder: ProgramDecoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    want = decoder.logits(TOKENS)
    sequence = decoder.new_sequence()
    decoder.forward(batch((sequence, 0, 70)))

    def fail(rows: object) -> Floats:
        raise BackendFailure("the machine is on fire")

    with monkeypatch.context() as patched:
        patched.setattr(decoder._runner, "run", fail)
        with pytest.raises(BackendFailure, match="on fire"):
            decoder.forward(batch((sequence, 70, 72)))
    with pytest.raises(BackendFailure, match="spoilt the state"):
        decoder.forward(batch((sequence, 70, 72)))
    assert decoder.resume_length(sequence, 70) == 64
    decoder.truncate(sequence, 64)
    same(decoder.forward(batch((sequence, 64, 72))), want[64:72])


def test_a_scheduler_shares_what_it_can_and_answers_as_if_alone(decoder: ProgramDecoder) -> None:
    config = GenerationConfig(max_tokens=12, seed=3, ignore_eos=True)
    prompts = [[*TOKENS[:90].tolist(), last] for last in range(5)]
    alone = [generate(decoder, prompt, config).tokens for prompt in prompts]
    with Scheduler(decoder, SchedulerLimits(running=3)) as scheduler:
        handles = [scheduler.submit(GenerationRequest(prompt, config)) for prompt in prompts]
        together = [handle.result(60)[0] for handle in handles]
        again = scheduler.submit(GenerationRequest(prompts[0], config)).result(60)[0]
    assert decoder.prefix_tokens == decoder.block_tokens
    assert [generation.tokens for generation in together] == alone
    assert again.tokens == alone[0]
    assert again.cached_tokens == 64


def test_a_step_is_cut_where_blocks_end() -> None:
    rows = batch((5, 0, 3), (2, 60, 70), (7, 63, 64), (1, 10, 12))
    first, second = Step.of_batch(rows).cut(64)
    assert first[0].spans().keys() == {5, 2, 7, 1}
    assert first[0].positions.tolist() == [0, 1, 2, 60, 61, 62, 63, 63, 10, 11]
    assert second[0].positions.tolist() == [64, 65, 66, 67, 68, 69]
    assert second[1].tolist() == [7, 8, 9, 10, 11, 12]
    assert second[0].outputs.tolist() == list(range(6))
    assert len(Step.of_batch(batch((0, 0, 5))).cut(64)) == 1
