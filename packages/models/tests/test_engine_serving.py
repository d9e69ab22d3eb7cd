"""A real model that serves many at once: each gets what it would get alone."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from rase_core.generation import Generation, StopReason
from rase_core.sampling import GenerationConfig
from rase_core.scheduler import SchedulerLimits
from rase_models import Engine
from rase_models.architectures import build_program
from rase_models.backends import load_backend
from rase_models.backends.base import BLOCK_TOKENS
from rase_models.gguf import open_gguf

pytest.importorskip("numba", reason="needs rase-models[cpu]")

CLIENTS = 16
SYSTEM = "You are a careful guide through an old town. Answer briefly, and name the places you mean. " * 4
CONFIGS = (
    GenerationConfig(temperature=0, max_tokens=24, ignore_eos=True),
    GenerationConfig(seed=5, max_tokens=24, ignore_eos=True),
    GenerationConfig(seed=6, max_tokens=24, temperature=1.2, top_k=0, top_p=1.0, min_p=0.0),
    GenerationConfig(seed=7, max_tokens=24, repetition_penalty=1.2, dry_multiplier=0.8),
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, smollm2_path: Path) -> Path:
    store = tmp_path_factory.mktemp("store")
    Engine(store).import_model(smollm2_path, "smollm2")
    return store


@pytest.fixture
def engine(store: Path) -> Iterator[Engine]:
    with Engine(store, "cpu", threads=2) as engine:
        yield engine


def ask(engine: Engine, number: int) -> str:
    question = {"role": "user", "content": f"Where is house number {number}?"}
    system = {"role": "system", "content": SYSTEM}
    messages = [question] if number % 2 else [system, question]
    return "".join(engine.stream_chat("smollm2", messages, CONFIGS[number % len(CONFIGS)]))


def test_sixteen_streams_get_the_texts_that_they_get_alone(engine: Engine) -> None:
    with ThreadPoolExecutor(CLIENTS) as clients:
        together = list(clients.map(lambda number: ask(engine, number), range(CLIENTS)))
    totals = engine.load("smollm2").snapshot().totals
    assert max(totals.batch_sizes) > 1
    assert totals.prefix_hits > 0
    engine.unload()
    alone = []
    for number in range(CLIENTS):
        alone.append(ask(engine, number))
        if number % 4 == 3:
            engine.unload()  # and with prefixes that nobody has computed
    assert together == alone


def test_streams_that_take_turns_in_little_memory_get_the_same_texts(
    store: Path, engine: Engine, smollm2_path: Path
) -> None:
    nbytes = load_backend("cpu").block_nbytes(build_program(open_gguf(smollm2_path)))
    limits = SchedulerLimits(running=4)
    with (
        Engine(store, "cpu", threads=1, kv_memory=6 * nbytes, limits=limits) as narrow,
        ThreadPoolExecutor(8) as clients,
    ):
        together = list(clients.map(lambda number: ask(narrow, number), range(8)))
        assert narrow.load("smollm2").snapshot().kv_capacity == 6 * BLOCK_TOKENS
    assert together == [ask(engine, number) for number in range(8)]


def test_choices_share_the_prompt_and_are_those_asked_for_alone(engine: Engine) -> None:
    prompt = SYSTEM + "The oldest house"
    choices = engine.generate_choices("smollm2", prompt, 4, CONFIGS[1])
    totals = engine.load("smollm2").snapshot().totals
    assert (totals.requests, totals.prompt_tokens) == (1, choices[0].prompt_tokens)
    alone = [engine.generate("smollm2", prompt, CONFIGS[1], choice=number) for number in range(4)]
    assert [choice.text for choice in choices] == [generation.text for generation in alone]
    assert len({choice.text for choice in choices}) > 1


def test_every_turn_of_a_conversation_reads_only_what_is_new(engine: Engine) -> None:
    messages: list[dict[str, object]] = [{"role": "system", "content": SYSTEM}]
    earlier: Generation | None = None
    for question in ("Where is the bridge?", "Who built it?", "When?"):
        messages.append({"role": "user", "content": question})
        answer = engine.chat("smollm2", messages, CONFIGS[0])
        messages.append({"role": "assistant", "content": answer.text})
        if earlier is not None:
            assert answer.cached_tokens >= earlier.prompt_tokens // BLOCK_TOKENS * BLOCK_TOKENS
        earlier = answer
    assert earlier is not None and earlier.prompt_tokens - earlier.cached_tokens < 2 * BLOCK_TOKENS


def test_what_is_cancelled_takes_no_further_step(engine: Engine) -> None:
    long = GenerationConfig(max_tokens=4000, ignore_eos=True)
    with engine.stream_generate("smollm2", "Once upon a time", long) as stream:
        for _ in zip(range(10), stream, strict=False):
            pass
    session = engine.load("smollm2")
    time.sleep(0.05)
    assert session.snapshot().decoding == 0
    steps = session.snapshot().totals.steps
    time.sleep(0.05)
    assert session.snapshot().totals.steps == steps
    assert stream.generation is not None
    assert session.snapshot().totals.generated_tokens < 100


def test_a_long_prompt_is_cancelled_in_its_middle_and_holds_up_nobody(engine: Engine) -> None:
    long = GenerationConfig(max_tokens=60, ignore_eos=True)
    with engine.stream_generate("smollm2", "Once upon a time", long) as running:
        next(running)
        prompt = "word " * 4000
        with engine.stream_generate("smollm2", prompt, long) as gone:
            assert len("".join(running)) > 60
        assert gone.generation is not None and gone.generation.tokens == ()
    assert running.generation is not None
    assert running.generation.stop_reason is StopReason.MAX_TOKENS
    time.sleep(0.05)
    computed = engine.load("smollm2").snapshot()
    assert (computed.prefilling, computed.waiting) == (0, 0)


def test_closing_leaves_no_thread(store: Path) -> None:
    before = set(threading.enumerate())
    with Engine(store, "cpu", threads=2) as engine:
        with ThreadPoolExecutor(4) as clients:
            list(clients.map(lambda number: ask(engine, number), range(4)))
        stream = engine.stream_generate("smollm2", "Once upon a time", CONFIGS[0])
        next(stream)
        stream.close()
    assert set(threading.enumerate()) <= before
