"""Answers of SGLang's /generate."""

import uuid
from collections.abc import Iterator, Sequence
from time import perf_counter

from rase_core.generation import Generation, StopReason
from rase_models.chat.reply import Reply

from rase_api.dialects import OPENAI, Json
from rase_api.replies.logprobs import sglang_logprobs, sglang_top_logprobs
from rase_api.replies.openai import DONE
from rase_api.replies.writer import KEEP_ALIVE, SSE, TextOnly, Told, sse
from rase_api.schemas.sglang import SglangRequest


class SglangWriter(TextOnly):
    """Writes texts with what is known of them; every piece of a stream has the whole text so far."""

    media_type = SSE
    quiet = KEEP_ALIVE

    def __init__(self, body: SglangRequest) -> None:
        self._body = body
        self._id = body.rid or uuid.uuid4().hex
        self._began = perf_counter()
        self._texts: dict[int, str] = {}
        self._prompt_tokens: dict[int, int] = {}

    def whole(self, generations: Sequence[Generation], replies: Sequence[Reply]) -> object:
        """Write one object, or a list for several prompts or choices."""
        answers = [self._finished(index, generation) for index, generation in enumerate(generations)]
        return answers if self._body.is_batch else answers[0]

    def started(self, index: int, prompt_tokens: int) -> Iterator[bytes]:
        """Write nothing yet; the first choice of a prompt stands for the others."""
        self._prompt_tokens[index] = prompt_tokens
        yield from ()

    def text(self, index: int, text: str, told: Told = (), count: int = 0) -> Iterator[bytes]:
        """Write the text so far, and how many tokens it took."""
        self._texts[index] = self._texts.get(index, "") + text
        meta: Json = {
            "id": self._id_of(index),
            "finish_reason": None,
            "prompt_tokens": self._prompt_tokens[index - index % self._body.choices],
            "completion_tokens": count,
        }
        yield self._piece(index, {"text": self._texts[index], "meta_info": meta})

    def finished(self, index: int, generation: Generation, told: Told = ()) -> Iterator[bytes]:
        """Write the whole text, and why it has ended."""
        yield self._piece(index, self._finished(index, generation))

    def end(self) -> Iterator[bytes]:
        """Write the end."""
        yield DONE

    def failed(self, error: BaseException) -> Iterator[bytes]:
        """Write an error instead of the end."""
        yield sse(OPENAI.envelope(error, self._body.names))

    def _piece(self, index: int, answer: Json) -> bytes:
        return sse(answer | {"index": index} if self._body.is_batch else answer)

    def _finished(self, index: int, generation: Generation) -> Json:
        meta = {
            "id": self._id_of(index),
            "finish_reason": finish_reason(generation),
            "prompt_tokens": generation.prompt_tokens,
            "completion_tokens": len(generation.tokens),
            "cached_tokens": generation.cached_tokens,
            "e2e_latency": perf_counter() - self._began,
        }
        meta |= self._told(generation) if generation.logprobs is not None else {}
        return {"text": generation.text, "output_ids": list(generation.tokens), "meta_info": meta}

    def _told(self, generation: Generation) -> Json:
        """Write the log probabilities of a whole answer, and of the prompt from where they were asked for."""
        prompt = (generation.prompt_logprobs or ())[self._body.first_told or 0 :]
        with_text, has_top = bool(self._body.return_text_in_logprobs), bool(self._body.top_logprobs_num)
        told: Json = {}
        for name, tokens in (("input", prompt), ("output", generation.logprobs or ())):
            told[f"{name}_token_logprobs"] = sglang_logprobs(tokens, with_text=with_text)
            if has_top:
                told[f"{name}_top_logprobs"] = sglang_top_logprobs(tokens, with_text=with_text)
        return told

    def _id_of(self, index: int) -> str:
        return f"{self._id}_{index}" if self._body.is_batch else self._id


def finish_reason(generation: Generation) -> Json:
    """Tell why a generation ended, and with which stop string."""
    if generation.stop_reason in (StopReason.MAX_TOKENS, StopReason.CONTEXT_FULL):
        return {"type": "length", "length": len(generation.tokens)}
    reason: Json = {"type": "stop"}
    return reason if generation.stop is None else reason | {"matched": generation.stop}
