"""The engine: registered models that answer. The door of rase for programs."""

from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Unpack, overload

from rase_core.arguments import CALLBACK, MAYBE_PATH, PATH, Kinds, check_arguments
from rase_core.deadline import Deadline
from rase_core.generation import Generation, generate
from rase_core.sampling import GenerationConfig
from rase_core.scheduler import Handle, OnEvent

from rase_models.architectures import build_program
from rase_models.batch.run import BatchRun
from rase_models.batch.task import BatchLimits, BatchTask
from rase_models.chat.options import ChatOptions, check_options
from rase_models.chat.reply import Reply
from rase_models.closing import closed_on_error
from rase_models.gguf import open_gguf
from rase_models.model_prompts import ModelPrompts
from rase_models.request import (
    Completion,
    Conversation,
    Messages,
    Prompt,
    Question,
    TermOptions,
    Terms,
)
from rase_models.room import Check, nothing_against
from rase_models.text_stream import IsCancelled, TextStream
from rase_models.tokenizers import fitted, load_tokenizer, tokenizer_from_gguf
from rase_models.typed_answers import T, TypedStream, format_of

OnText = Callable[[str], bool | None]

_KINDS: Kinds = {
    "cancelled": CALLBACK,
    "on_event": CALLBACK,
    "on_text": CALLBACK,
    "weights": PATH,
    "tokenizer": MAYBE_PATH,
}


class Engine(ModelPrompts):
    """Models of one store on one device. Thread-safe; requests to one model are computed together.

    Args:
        store: the folder of the registered models; None for `default_store()`.
        device: auto, cpu, cuda, cuda:1 for the second GPU, metal or reference.
        threads: of the CPU backend, a number or ThreadCounts; None for its own choice.
        context_length: the most tokens of any model's sequence, where the model's own limit is not lower.
        progress: told about hashing, downloading, loading and compiling, in the thread that does it.
        kv_memory: the most bytes for the keys and values of each model, of which only those in use are taken;
            where they do not suffice for one context, the context is shorter. None for a quarter of the
            machine's memory, and always enough for one context.
        kv_type: in which keys and values are kept: f16, f32 or q8_0; None for the device's own choice, which
            is f16 on the CPU.
        gpu_layers: how many layers are to be on a GPU: 0 for none, -1 or as many as there are for all; None
            leaves it to the device. Anything between is refused when the model is loaded.
        keep_alive: the seconds that a model may stay in memory without being used; None for as long as there
            is room. `keep` says it of one model.
        max_memory: the most bytes for all models together, by `estimate`. Models that nobody uses make room
            for others, those used last staying longest.
        limits: how many requests to each model wait and run at once, and how many tokens of earlier ones
            are kept; None for SchedulerLimits(). Unless that or `kv_memory` is given, what is kept is a
            quarter of the memory for keys and values, and four contexts at most.
        cache: the models in memory, to share them; what loads and keeps them is then the cache's own affair.

    Nothing is read before it is needed. A model is verified and loaded when it is first used, and stays in
    memory until `unload`, `remove` or `close`, or as `keep_alive` and `max_memory` say. A model goes by its
    id or an alias.

    Whatever answers takes a `timeout`, the most seconds from asking to the end, and raises besides what is
    named there: QueueFull, RequestTimeout, ShuttingDown, BackendFailure. Each answer is the one that its
    request would get alone. A `response_format` holds the answer to a schema, a pattern or a grammar, unless
    it is cut off before its end; UnenforceableFormat, where that cannot be done, and ConstraintFailure.
    """

    def submit(
        self,
        model_id: str,
        question: Question,
        on_event: OnEvent | None = None,
        *,
        asked: float | None = None,
        check: Check = nothing_against,
    ) -> Handle:
        """Ask without waiting for the answer: of several choices, from asyncio, with a view of each token.

        `on_event` hears of everything in the thread that computes, which it must not keep; without it the
        handle can be iterated. The time of a question that was `asked` before, by time.perf_counter, has
        begun then. Raises what `load` and `chat` raise, and `check` as it does for `load`.
        """
        check_arguments(_KINDS, on_event=on_event)
        deadline = Deadline(question.terms.timeout, perf_counter() if asked is None else asked)
        with self._cache.lease(self._registry, model_id, self._preference, deadline, check) as session:
            request = replace(question.request(session), asked=deadline.asked)
            return session.submit(request, on_event, self._cache.profile.count)

    def generate(
        self,
        model_id: str,
        prompt: Prompt,
        config: GenerationConfig | None = None,
        *,
        on_text: OnText | None = None,
        cancelled: IsCancelled | None = None,
        **terms: Unpack[TermOptions],
    ) -> Generation:
        """Continue a text or tokens; `config` None means `default_config`.

        `on_text` hears each piece of text in this thread, and ends the answer by returning False; `cancelled`
        is asked while waiting, and before every piece. `choice` sets apart the answers of one seed.

        Raises what `load` raises, ContextOverflow before anything is computed, InvalidParameter,
        InvalidLogits.
        """
        return self._answer(model_id, Completion(prompt, Terms.of(config, **terms)), on_text, cancelled)

    def stream_generate(
        self,
        model_id: str,
        prompt: Prompt,
        config: GenerationConfig | None = None,
        *,
        cancelled: IsCancelled | None = None,
        **terms: Unpack[TermOptions],
    ) -> TextStream:
        """Continue a text as `generate` does, as an iterator of the pieces."""
        return self._stream(model_id, Completion(prompt, Terms.of(config, **terms)), cancelled)

    def generate_choices(
        self,
        model_id: str,
        prompt: Prompt,
        n: int,
        config: GenerationConfig | None = None,
        **terms: Unpack[TermOptions],
    ) -> tuple[Generation, ...]:
        """Continue a text in `n` ways at once: the answers `choice`, `choice` + 1, ... of `generate`."""
        return self._choices(model_id, Completion(prompt, Terms.of(config, n, **terms)))

    def chat(
        self,
        model_id: str,
        messages: Messages,
        config: GenerationConfig | None = None,
        *,
        on_text: OnText | None = None,
        cancelled: IsCancelled | None = None,
        continue_final_message: bool = False,
        **terms: Unpack[TermOptions],
    ) -> Generation:
        """Answer a conversation, or go on with its last message; otherwise as `generate`.

        Raises, besides what `generate` raises, TemplateError for a model without template,
        InvalidConversation.
        """
        question = Conversation(messages, Terms.of(config, **terms), continue_final_message)
        return self._answer(model_id, question, on_text, cancelled)

    def reply(
        self,
        model_id: str,
        messages: Messages,
        config: GenerationConfig | None = None,
        *,
        options: ChatOptions | None = None,
        **terms: Unpack[TermOptions],
    ) -> Reply:
        """Answer a conversation as `chat` does, with tools, told apart into thought, content and calls."""
        check_options(options)
        question = Conversation(
            messages, Terms.of(config, **terms), options=options or ChatOptions(), is_read=True
        )
        with self._stream(model_id, question, None) as stream:
            reading = self.reading(model_id, question)
            return reading.read("".join(stream))

    def chat_as(
        self,
        model_id: str,
        messages: Messages,
        kind: type[T],
        config: GenerationConfig | None = None,
        *,
        timeout: float | None = None,
    ) -> T:
        """Answer a conversation with an object of a class, of Pydantic's for example.

        Raises, besides what `chat` raises, UnfinishedAnswer, and what the class itself raises.
        """
        with self.stream_chat_as(model_id, messages, kind, config, timeout=timeout) as stream:
            for _ in stream:
                pass
            return stream.value

    def stream_chat_as(
        self,
        model_id: str,
        messages: Messages,
        kind: type[T],
        config: GenerationConfig | None = None,
        *,
        timeout: float | None = None,
    ) -> TypedStream[T]:
        """Answer a conversation as `chat_as` does, as an iterator that has the object at its end."""
        terms = Terms(config=config, timeout=timeout, response_format=format_of(kind))
        question = Conversation(messages, terms, is_read=True)
        with closed_on_error(self._stream(model_id, question, None)) as stream:
            return TypedStream(stream, self.reading(model_id, question), kind)

    def chat_choices(
        self,
        model_id: str,
        messages: Messages,
        n: int,
        config: GenerationConfig | None = None,
        *,
        continue_final_message: bool = False,
        **terms: Unpack[TermOptions],
    ) -> tuple[Generation, ...]:
        """Answer a conversation in `n` ways at once: the answers `choice`, `choice` + 1, ... of `chat`."""
        return self._choices(
            model_id, Conversation(messages, Terms.of(config, n, **terms), continue_final_message)
        )

    @overload
    def stream_chat(
        self,
        model_id: str,
        messages: Messages,
        config: GenerationConfig | None = None,
        *,
        on_text: None = None,
        cancelled: IsCancelled | None = None,
        continue_final_message: bool = False,
        **terms: Unpack[TermOptions],
    ) -> TextStream: ...

    @overload
    def stream_chat(
        self,
        model_id: str,
        messages: Messages,
        config: GenerationConfig | None = None,
        *,
        on_text: OnText,
        cancelled: IsCancelled | None = None,
        continue_final_message: bool = False,
        **terms: Unpack[TermOptions],
    ) -> Generation: ...

    def stream_chat(
        self,
        model_id: str,
        messages: Messages,
        config: GenerationConfig | None = None,
        *,
        on_text: OnText | None = None,
        cancelled: IsCancelled | None = None,
        continue_final_message: bool = False,
        **terms: Unpack[TermOptions],
    ) -> TextStream | Generation:
        """Answer a conversation as `chat` does: as an iterator of the pieces, or to `on_text`.

        A call with `on_text` returns the answer at its end, as far as it came when `on_text` returned False.
        """
        question = Conversation(messages, Terms.of(config, **terms), continue_final_message)
        if on_text is None:
            return self._stream(model_id, question, cancelled)
        return self._answer(model_id, question, on_text, cancelled)

    def generate_file(
        self,
        weights: Path | str,
        tokenizer: Path | str | None,
        prompt: Prompt,
        config: GenerationConfig | None = None,
    ) -> Generation:
        """Continue a text with a file that is not registered; its own vocabulary counts without a tokenizer.

        `weights` and `tokenizer` are paths. Nothing is verified, and nothing stays in memory.
        """
        check_arguments(_KINDS, weights=weights, tokenizer=tokenizer)
        file = open_gguf(weights)
        given = tokenizer_from_gguf(file) if tokenizer is None else load_tokenizer(tokenizer)
        program = build_program(file)
        words = fitted(given, file, program.vocab_size)
        question = Completion(prompt, Terms(config=config))
        request = question.request_with(words, GenerationConfig(), program.context_length)
        detokenizer = words.detokenizer(continues=True)
        with closing(self._loader.decoder(file, self.device)) as decoder:
            return generate(decoder, request.prompt, request.config, detokenizer=detokenizer)

    def batch(self, tasks: Iterable[BatchTask], limits: BatchLimits | None = None) -> BatchRun:
        """Answer many tasks, so many at a time, as an iterator of the results in the order of their ends.

        A failed task is a result, too. See BatchRun, and `rase_models.batch.run_file` for files of tasks.
        """
        return BatchRun(self, tasks, limits)

    def profile(self, reset: bool = False) -> dict[str, int]:
        """Return where the time went since the start or the last reset; all zero unless RASE_PROFILE is 1."""
        return self._cache.profile.snapshot(reset=reset)

    def _stream(self, model_id: str, question: Question, cancelled: IsCancelled | None) -> TextStream:
        check_arguments(_KINDS, cancelled=cancelled)
        return TextStream(self.submit(model_id, question), cancelled)

    def _answer(
        self, model_id: str, question: Question, on_text: OnText | None, cancelled: IsCancelled | None
    ) -> Generation:
        check_arguments(_KINDS, on_text=on_text, cancelled=cancelled)
        handle = self.submit(model_id, question)
        with TextStream(handle, cancelled) as stream:
            for text in stream:
                if on_text is not None and on_text(text) is False:
                    stream.close()
        return stream.generation or handle.result()[0]

    def _choices(self, model_id: str, question: Question) -> tuple[Generation, ...]:
        handle = self.submit(model_id, question)
        try:
            return handle.result()
        finally:
            handle.cancel()
