"""The measurements of serving, each a function that gives rows of the report."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import servers
from ceiling import Machine, Request, most_tokens
from clients import Load, crowd, longest_gap
from rase_core.sampling import GenerationConfig
from rase_core.scheduler import GenerationRequest, Scheduler
from rase_models.gguf import open_gguf
from rase_models.loading import load_decoder
from rase_models.step_work import step_work
from rase_models.tokenizers import load_tokenizer
from rows import Row, most_row, ratio_row

RATIOS = {1: 4.0, 4: 8.0, 8: 10.0, 16: 10.0}
"""How many times as fast as llama-server, by clients."""
FIRST_SHARE = 0.1
SHARED_WORDS, SHARED_RATIO = 400, 15.0
CROWD, QUEUE, SPARE_MB = 200, 64, 8.0
LONG_WORDS = 1900
GAP_STEPS = 4.0

Start = Callable[[], AbstractContextManager[servers.Running]]


@dataclass(frozen=True, slots=True)
class Subjects:
    """The model, the threads, llama-server's program if there is one, and a larger model if there is one."""

    model: Path
    threads: int
    llama_server: Path | None
    larger: Path | None

    def rase(self, *options: str) -> AbstractContextManager[servers.Running]:
        """Start rase."""
        return servers.rase(self.model, self.threads, *options)

    def compare(self, load: Load) -> tuple[dict[str, float], dict[str, float] | None]:
        """Return what clients see of rase, and of llama-server."""
        ours = _run(self.rase, load)
        program = self.llama_server
        if program is None:
            return ours, None
        return ours, _run(lambda: servers.llama(program, self.model, self.threads), load)

    def most_row(
        self, work: str, clients: int, ours: dict[str, float], theirs: dict[str, float] | None
    ) -> Row:
        """Say what the machine could give at most for what clients saw."""
        request = Request(ours["prompt"], ours["answer"])
        speed = most_tokens(
            step_work(open_gguf(self.model)), Machine.measured(self.threads), clients, request
        )
        ratio = "" if theirs is None else f"{speed / theirs['tok_s']:.2f} x"
        return Row(f"{work}, if products and weights were all", f"{speed:.1f} tok/s", "", ratio)


def _run(start: Start, load: Load) -> dict[str, float]:
    with start() as running:
        return asyncio.run(load.run(running.server))


def clients(subjects: Subjects) -> Iterator[Row]:
    """Measure tokens/s and the time to the first text by the number of clients."""
    for number, ratio in RATIOS.items():
        ours, theirs = subjects.compare(Load(number))
        yield ratio_row(f"{_named(number)}, all together", ours["tok_s"], _speed(theirs), ratio)
        yield subjects.most_row(_named(number), number, ours, theirs)
        yield _first_row(
            f"{_named(number)}, median time to first text", ours, theirs, number >= servers.SLOTS
        )
        yield most_row(f"{_named(number)}, failed requests", ours["failed"], 0, "")


def _named(number: int) -> str:
    return f"{number} client{'s' if number > 1 else ''}"


def _speed(seen: dict[str, float] | None) -> float | None:
    return None if seen is None else seen["tok_s"]


def _first_row(work: str, ours: dict[str, float], theirs: dict[str, float] | None, has_aim: bool) -> Row:
    seconds = f"{ours['first_s']:.3f} s"
    if theirs is None:
        return Row(work, seconds)
    share = ours["first_s"] / theirs["first_s"]
    aim, reached = (f"{FIRST_SHARE} x", share <= FIRST_SHARE) if has_aim else ("", None)
    return Row(work, seconds, f"{theirs['first_s']:.3f} s", f"{share:.2f} x", aim, reached)


def shared(subjects: Subjects) -> Iterator[Row]:
    """Measure questions that begin alike."""
    ours, theirs = subjects.compare(Load(servers.SLOTS, shared=SHARED_WORDS))
    work = f"{SHARED_WORDS} words shared by {servers.SLOTS} clients"
    yield ratio_row(work, ours["tok_s"], _speed(theirs), SHARED_RATIO)
    yield subjects.most_row(work, servers.SLOTS, ours, theirs)


def gap(subjects: Subjects) -> Iterator[Row]:
    """Measure what running streams notice of a long prompt; with guesses tokens of one step have no gap."""
    silent = _silent(subjects.model)
    for streams in (1, 4, servers.SLOTS):
        with subjects.rase("--draft-tokens", "0") as running:
            # Memory is new once.
            asyncio.run(longest_gap(running.server, streams, LONG_WORDS, "first", silent))
            seen = asyncio.run(longest_gap(running.server, streams, LONG_WORDS, "second", silent))
        work = f"longest gap of {streams} streams while a prompt of {LONG_WORDS} words arrives"
        yield most_row(work, seen["most_s"] / seen["normal_s"], GAP_STEPS, "normal steps")
        usual = seen["usual_s"] / seen["normal_s"]
        yield Row(f"99 of 100 gaps of {streams} streams are within", f"{usual:.2f} normal steps")
        yield Row(f"that prompt's time to first text beside {streams}", f"{seen['first_s']:.2f} s")


def _silent(model: Path) -> list[int]:
    """Return the tokens that no text comes of, or none before another token: they are parts of characters."""
    tokenizer = load_tokenizer(model)
    texts = ((token, tokenizer.decode([token])) for token in range(tokenizer.vocab_size))
    return [token for token, text in texts if not text or "\ufffd" in text]


def overhead(subjects: Subjects) -> Iterator[Row]:
    """Measure the part of a step that is not the decoder's, with 8 streams, by kind of sampling."""
    models = ((subjects.model, 25.0), (subjects.larger, 10.0))
    kinds = {
        "greedy": GenerationConfig(temperature=0, max_tokens=200, ignore_eos=True),
        "default sampling": GenerationConfig(max_tokens=200, ignore_eos=True),
        "top_p alone": GenerationConfig(top_k=0, min_p=0, max_tokens=200, ignore_eos=True),
    }
    for path, limit in models:
        for kind, config in kinds.items():
            if path is not None:
                share = _outside(path, subjects.threads, config)
                work = f"step outside the decoder, {servers.SLOTS} streams, {kind}, {path.stem}"
                yield most_row(work, 100 * share, limit, "%")


def _outside(path: Path, threads: int, config: GenerationConfig) -> float:
    decoder, tokenizer = load_decoder(path, "cpu", threads), load_tokenizer(path)
    prompts = [tokenizer.encode(f"A long story, number {i}:") for i in range(servers.SLOTS)]
    with Scheduler(decoder) as scheduler:
        for _ in range(2):  # the first time warms up
            before = scheduler.snapshot().totals
            requests = [GenerationRequest(prompt, config, tokenizer.detokenizer) for prompt in prompts]
            handles = [scheduler.submit(request, lambda event: None) for request in requests]
            for handle in handles:
                handle.result()
        after = scheduler.snapshot().totals
    decoder.close()
    step = after.step_seconds - before.step_seconds
    return 1 - (after.decoder_seconds - before.decoder_seconds) / step


def flood(subjects: Subjects) -> Iterator[Row]:
    """Measure what becomes of more clients than there is room for."""
    with subjects.rase("--max-queue", str(QUEUE), "--kv-memory", "256MB") as running:
        for _ in range(4):  # until all threads are there, and the memory for keys and values is full
            asyncio.run(crowd(running.server, CROWD, 32))
        before = running.usage()
        outcomes = Counter[str]()
        for _ in range(3):
            outcomes += asyncio.run(crowd(running.server, CROWD, 32))
        after = running.usage()
    found = ", ".join(f"{count} x {what}" for what, count in sorted(outcomes.items()))
    is_clean = set(outcomes) <= {"200", "429"} and outcomes.total() == 3 * CROWD
    yield Row(f"3 times {CROWD} clients at once, queue {QUEUE}", found, "", "", "only 200 and 429", is_clean)
    if before is not None and after is not None:
        yield most_row("memory that they leave", after.memory - before.memory, SPARE_MB, "MB")
        yield most_row("threads that they leave", after.threads - before.threads, 0, "")


SECTIONS = {"clients": clients, "shared": shared, "gap": gap, "overhead": overhead, "flood": flood}
"""By the names that `serving.py --only` takes."""
