"""A real decoder under a scheduler: every answer is the one that its request gets alone."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from rase_core.generation import generate
from rase_core.sampling import GenerationConfig
from rase_core.scheduler import GenerationRequest, Scheduler, SchedulerLimits
from rase_core.scheduler.pool import STRIDE
from rase_models.decoder import ProgramDecoder
from rase_models.loading import load_decoder
from rase_models.testing import write_tiny_model

SYSTEM = list(
    b"You are a careful assistant, and you answer in one short sentence; if you don't know, say so."
)
CONFIGS = (
    GenerationConfig(temperature=0, max_tokens=20),
    GenerationConfig(max_tokens=20, seed=1),
    GenerationConfig(max_tokens=20, seed=2, presence_penalty=0.5),
)


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProgramDecoder]:
    path: Path = write_tiny_model(tmp_path_factory.mktemp("tiny") / "tiny.gguf", context_length=256)
    decoder = load_decoder(path, "reference")
    yield decoder
    decoder.close()


def test_answers_are_the_same_alone_and_together(decoder: ProgramDecoder) -> None:
    requests = [GenerationRequest([*SYSTEM, 65 + i], CONFIGS[i % 3], n=1 + i % 2) for i in range(9)]
    alone = [
        generate(decoder, request.prompt, request.config, choice=choice).tokens
        for request in requests
        for choice in range(request.n)
    ]
    used = decoder.kv_used
    with Scheduler(decoder, SchedulerLimits(running=6)) as scheduler:
        handles = [scheduler.submit(request) for request in requests]
        together = [generation for handle in handles for generation in handle.result(60)]
        again = scheduler.submit(requests[0]).result(60)[0]
    assert [generation.tokens for generation in together] == alone
    assert together[-1].cached_tokens == len(SYSTEM) // STRIDE * STRIDE
    assert again.tokens == alone[0]
    assert decoder.kv_used == used
