"""Clients of an OpenAI-compatible server, and what they see of it."""

import asyncio
import json
import random
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise

import h11
import httpx
from posting import posted

WORDS = ("anchor", "bridge", "candle", "desert", "ember", "forest", "glacier", "hollow", "island", "jungle")
LIMIT_SECONDS = 600.0


@dataclass(slots=True)
class Seen:
    """What a client saw of one streamed answer; times are of time.perf_counter.

    `prompt_tokens` are those that the server had to compute, if it tells. `error` says in words what went
    wrong: another status than 200 is no error.
    """

    asked: float = 0.0
    status: int = 0
    times: list[float] = field(default_factory=list)
    text: str = ""
    tokens: int = 0
    prompt_tokens: int = 0
    is_whole: bool = False
    error: str = ""

    @property
    def first(self) -> float:
        """The seconds to the first text."""
        return self.times[0] - self.asked if self.times else float("inf")

    @property
    def gaps(self) -> list[float]:
        """The seconds between pieces of text."""
        return [later - earlier for earlier, later in pairwise(self.times)]


@dataclass(frozen=True, slots=True)
class Server:
    """A server's address and the name of the model that is asked."""

    url: str
    model: str

    @asynccontextmanager
    async def connected(self, most: int) -> AsyncIterator[httpx.AsyncClient]:
        """Give a client for so many connections at once."""
        limits = httpx.Limits(max_connections=most, max_keepalive_connections=most)
        async with httpx.AsyncClient(base_url=self.url, timeout=LIMIT_SECONDS, limits=limits) as client:
            yield client

    def question(self, text: str) -> dict[str, object]:
        """Return the body of a greedy chat that is to be streamed."""
        messages = [{"role": "user", "content": text}]
        return {"model": self.model, "messages": messages, "stream": True, "temperature": 0}

    async def chat(self, text: str, max_tokens: int, **more: object) -> Seen:
        """Stream an answer to the end."""
        seen = Seen(time.perf_counter())
        body = self.question(text) | {"max_tokens": max_tokens, "stream_options": {"include_usage": True}}
        try:
            async with asyncio.timeout(LIMIT_SECONDS):
                await _read(self.url, body | more, seen)
        except (OSError, h11.RemoteProtocolError) as error:
            seen.error = f"{type(error).__name__}: {error}"
        return seen


async def _read(url: str, body: Mapping[str, object], seen: Seen) -> None:
    async with aclosing(posted(url, "/v1/chat/completions", body)) as lines:
        async for line in lines:
            if isinstance(line, int):
                seen.status = line
            elif seen.status != httpx.codes.OK:
                seen.text += line.decode(errors="replace")
            elif line == b"data: [DONE]":
                seen.is_whole = True
            elif line.startswith(b"data: "):
                _note(json.loads(line.removeprefix(b"data: ")), seen)
    if seen.status == httpx.codes.OK and not seen.is_whole:
        seen.error = "the stream ended before its end"


def _note(piece: Mapping[str, object], seen: Seen) -> None:
    match piece:
        case {"error": error}:
            seen.error = str(error)
        case {"choices": [{"delta": {"content": str(text)}}]} if text:
            seen.times.append(time.perf_counter())
            seen.text += text
        case {"usage": {"completion_tokens": int(tokens), "prompt_tokens": int(prompt), **more}}:
            seen.tokens = tokens
            match more:
                case {"prompt_tokens_details": {"cached_tokens": int(cached)}}:
                    seen.prompt_tokens = prompt - cached


def words(count: int, seed: object) -> str:
    """Return so many words, the same for the same seed."""
    return " ".join(random.Random(str(seed)).choices(WORDS, k=count))


@dataclass(frozen=True, slots=True)
class Load:
    """So many clients that ask one question after another, all different.

    `shared` words are the beginning of every question.
    """

    clients: int
    requests: int = 3
    max_tokens: int = 96
    words: int = 60
    shared: int = 0

    async def run(self, server: Server) -> dict[str, float]:
        """Return tokens/s of all together, the median seconds to the first text, and the failures.

        With them come the tokens of an answer, and those of a prompt that had to be computed, on average.
        """
        started = time.perf_counter()
        answers = await asyncio.gather(*(self._ask(server, i) for i in range(self.clients)))
        seconds = time.perf_counter() - started
        seen = [answer for some in answers for answer in some]
        good = [answer for answer in seen if answer.is_whole]
        return {
            "tok_s": sum(answer.tokens for answer in good) / seconds,
            "first_s": statistics.median(answer.first for answer in good) if good else float("inf"),
            "failed": len(seen) - len(good),
            "answer": statistics.fmean(answer.tokens for answer in good) if good else 0.0,
            "prompt": statistics.fmean(answer.prompt_tokens for answer in good) if good else 0.0,
        }

    async def _ask(self, server: Server, number: int) -> list[Seen]:
        beginning = words(self.shared, "shared")
        texts = (words(self.words, (self.clients, number, i)) for i in range(self.requests))
        asks = [f"{beginning} Tell a long story with these words: {text}" for text in texts]
        return [await server.chat(ask, self.max_tokens) for ask in asks]


async def longest_gap(
    server: Server, streams: int, prompt_words: int, seed: str, silent: Iterable[int]
) -> dict[str, float]:
    """Let a long prompt arrive while streams run.

    `silent` are the tokens without a text of their own, which the streams are not to have: a client sees
    nothing of them, and would take two steps for one.

    Returns the median seconds between two pieces of text of a stream before; what 99 of 100 of them, and all,
    take at most while the prompt is computed; and the seconds until the answer to it begins.
    """
    running = [Seen() for _ in range(streams)]
    bias = {str(token): -100 for token in silent}
    endless = [_endless(server, i, seen, bias) for i, seen in enumerate(running)]
    tasks = [asyncio.create_task(stream) for stream in endless]
    while min(len(seen.times) for seen in running) < 60:
        await asyncio.sleep(0.01)
    arrived = time.perf_counter()
    late = await server.chat(words(prompt_words, seed), 8, ignore_eos=True)
    ended = late.asked + late.first
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    before = [gap for seen in running for gap in _between(seen, 0.0, arrived)[20:]]
    during = sorted(gap for seen in running for gap in _between(seen, arrived, ended))
    return {
        "normal_s": statistics.median(before),
        "usual_s": during[99 * len(during) // 100],
        "most_s": during[-1],
        "first_s": late.first,
    }


async def _endless(server: Server, number: int, seen: Seen, bias: Mapping[str, float]) -> None:
    body = server.question(words(20, number)) | {"max_tokens": 4000, "ignore_eos": True, "logit_bias": bias}
    await _read(server.url, body, seen)


def _between(seen: Seen, start: float, end: float) -> list[float]:
    times = [time for time in seen.times if start <= time <= end]
    return [later - earlier for earlier, later in pairwise(times)]


async def crowd(server: Server, clients: int, max_tokens: int) -> Counter[str]:
    """Let so many ask at once; return how often each status came, and each error."""
    answers = await asyncio.gather(*(server.chat(words(20, i), max_tokens) for i in range(clients)))
    return Counter(answer.error or str(answer.status) for answer in answers)
