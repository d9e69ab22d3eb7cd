"""A real model under load: streams of all kinds in too little memory get the answers that they get alone."""

from pathlib import Path

import pytest
from rase_core.generation import Generation
from rase_core.sampling import GenerationConfig
from rase_core.scheduler import SchedulerLimits
from rase_models import Engine
from rase_models.request import Completion, Terms

pytest.importorskip("numba", reason="needs rase-models[cpu]")

MODEL = "smollm2"
SHARED = "You are a helpful assistant who knows the rivers, the mountains and the cities of the whole world. "
SAMPLING: tuple[dict[str, object], ...] = (
    {"temperature": 0},
    {"temperature": 0.8},
    {"temperature": 1, "top_k": 0, "top_p": 1, "min_p": 0},
    {"temperature": 1, "top_k": 0, "top_p": 0.9, "presence_penalty": 0.5},
    {"temperature": 0, "repetition_penalty": 1.2, "dry_multiplier": 0.8},
)


def question(number: int) -> Completion:
    """Return one of many: some begin alike, one is long, every fourth has eight answers."""
    text = (SHARED * (1 + 3 * (number % 3))) if number % 2 else ""
    length = 150 if number == 7 else 5 + number
    prompt = f"{text}{number}. " + " ".join(f"word{i % 17}" for i in range(length))
    config = GenerationConfig.from_mapping(
        {
            **SAMPLING[number % len(SAMPLING)],
            "seed": number,
            "max_tokens": 24 + number % 8,
            "ignore_eos": True,
        }
    )
    return Completion(prompt, Terms(config=config, n=8 if number % 4 == 0 else 1))


def tokens(generations: tuple[Generation, ...]) -> list[tuple[int, ...]]:
    return [generation.tokens for generation in generations]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, smollm2_path: Path) -> Path:
    store = tmp_path_factory.mktemp("store")
    Engine(store).import_model(smollm2_path, MODEL)
    return store


def test_answers_are_the_same_alone_and_among_sixteen_that_are_preempted(store: Path) -> None:
    with Engine(store, "cpu", threads=2, limits=SchedulerLimits(cached_tokens=0)) as engine:
        alone = [tokens(engine.submit(MODEL, question(number)).result(60)) for number in range(16)]
    with Engine(store, "cpu", threads=1, context_length=1024, kv_memory=24 << 20) as engine:
        handles = [engine.submit(MODEL, question(number)) for number in range(16)]
        gone = [engine.submit(MODEL, question(number)) for number in range(5)]
        for handle in gone:
            handle.cancel()
        together = [tokens(handle.result(120)) for handle in handles]
        preemptions = engine.load(MODEL).snapshot().totals.preemptions
        late = [tokens(engine.submit(MODEL, question(number)).result(120)) for number in (3, 7)]
    assert together == alone
    assert late == [alone[3], alone[7]]
    assert preemptions > 0


def test_answers_are_the_same_with_tokens_guessed_ahead(store: Path) -> None:
    found = []
    for most in (0, 3):
        limits = SchedulerLimits(draft_tokens=most)
        with Engine(store, "cpu", threads=2, limits=limits) as engine:
            found.append([tokens(engine.submit(MODEL, question(number)).result(60)) for number in range(10)])
            totals = engine.load(MODEL).snapshot().totals
            assert (totals.accepted_tokens > 0) == (most > 0)
    assert found[0] == found[1]
