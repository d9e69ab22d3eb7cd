"""The engine on a real model with the compiled backend."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rase_core.generation import StopReason
from rase_core.sampling import GenerationConfig
from rase_models import Engine

pytest.importorskip("numba", reason="needs rase-models[cpu]")

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
CONFIG = GenerationConfig(max_tokens=24, seed=11, ignore_eos=True)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, smollm2_path: Path) -> Path:
    store = tmp_path_factory.mktemp("store")
    Engine(store).import_model(smollm2_path, "smollm2")
    return store


@pytest.fixture(scope="module")
def engine(store: Path) -> Iterator[Engine]:
    with Engine(store, "cpu", threads=2) as engine:
        yield engine


def test_the_capital_of_france_is_paris(engine: Engine) -> None:
    generation = engine.chat("smollm2", QUESTION)
    assert "Paris" in generation.text
    assert generation.stop_reason is StopReason.STOP_TOKEN


def test_one_thread_gives_the_text_of_two(engine: Engine, store: Path) -> None:
    with Engine(store, "cpu", threads=1) as single:
        assert (
            single.chat("smollm2", QUESTION, CONFIG).tokens == engine.chat("smollm2", QUESTION, CONFIG).tokens
        )


def test_a_streamed_answer_is_the_one_that_is_not_streamed(engine: Engine) -> None:
    assert (
        "".join(engine.stream_chat("smollm2", QUESTION, CONFIG))
        == engine.chat("smollm2", QUESTION, CONFIG).text
    )


def test_another_process_gives_the_same_text(engine: Engine, store: Path) -> None:
    program = f"""
from rase_core.sampling import GenerationConfig
from rase_models import Engine
config = GenerationConfig(max_tokens=24, seed=11, ignore_eos=True)
with Engine({str(store)!r}, "cpu") as engine:
    print(engine.chat("smollm2", {QUESTION!r}, config).tokens)
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == str(engine.chat("smollm2", QUESTION, CONFIG).tokens)


def test_an_earlier_request_leaves_no_trace(engine: Engine) -> None:
    alone = engine.chat("smollm2", QUESTION, CONFIG).tokens
    engine.generate("smollm2", "Once upon a time there was " * 20, CONFIG)
    assert engine.chat("smollm2", QUESTION, CONFIG).tokens == alone


def test_requests_of_many_threads_do_not_mix(engine: Engine) -> None:
    prompts = [f"The number {i} is" for i in range(4)]
    alone = [engine.generate("smollm2", prompt, CONFIG).tokens for prompt in prompts]
    together: dict[str, tuple[int, ...]] = {}

    def ask(prompt: str) -> None:
        together[prompt] = engine.generate("smollm2", prompt, CONFIG).tokens

    threads = [threading.Thread(target=ask, args=(prompt,)) for prompt in prompts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [together[prompt] for prompt in prompts] == alone


def test_other_threads_run_while_it_computes(engine: Engine) -> None:
    """A thread that only sleeps and counts wakes up in the middle of prefills and decodes."""
    ticks: list[float] = []
    done = threading.Event()

    def tick() -> None:
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    ticker = threading.Thread(target=tick)
    ticker.start()
    start = time.perf_counter()
    engine.generate("smollm2", "word " * 1000, GenerationConfig(max_tokens=1))
    end = time.perf_counter()
    done.set()
    ticker.join()
    assert sum(start < moment < end for moment in ticks) >= 10


def test_a_request_is_cancelled_in_the_middle_of_its_prompt(engine: Engine) -> None:
    chunks = 0

    def cancelled() -> bool:
        nonlocal chunks
        chunks += 1
        return chunks > 3

    generation = engine.generate("smollm2", "word " * 2000, CONFIG, cancelled=cancelled)
    assert (generation.stop_reason, generation.tokens) == (StopReason.CANCELLED, ())
