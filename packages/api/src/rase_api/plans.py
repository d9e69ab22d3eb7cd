"""Which generations a request needs; plans are iterated in a worker thread, where waiting is allowed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from rase_core.logprobs import Logprobs
from rase_core.sampling import GenerationConfig
from rase_models import request
from rase_models.chat.options import ChatOptions
from rase_models.constraints import ResponseFormat
from rase_models.gpu_layers import check_gpu_layers
from rase_models.request import Terms

from rase_api.asking import Ask
from rase_api.errors import InvalidValue
from rase_api.schemas.prompts import Prompt
from rase_api.serving import LoadedModel, Messages, ServingEngine
from rase_api.words import without

FOR_EVER = -1.0
"""Seconds without an end, as Ollama writes them."""


class Plan(Protocol):
    """The generations of one request."""

    def asks(self, engine: ServingEngine, model_id: str, config: GenerationConfig) -> Iterator[Ask]:
        """Yield the questions to ask for them."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages to be answered `n` times, or their last one to be gone on with; `words` must not come.

    `is_counted` tells the prompt's tokens before the first text; an answer that `is_read` comes as its parts.
    """

    messages: Messages
    n: int = 1
    words: Sequence[str] = ()
    is_continued: bool = False
    is_counted: bool = False
    response_format: ResponseFormat | None = None
    options: ChatOptions = field(default_factory=ChatOptions)
    is_read: bool = False
    logprobs: Logprobs | None = None

    def asks(self, engine: ServingEngine, model_id: str, config: GenerationConfig) -> Iterator[Ask]:
        """Yield the one question."""
        config = without(engine, model_id, config, self.words)
        terms = Terms(config=config, n=self.n, response_format=self.response_format, logprobs=self.logprobs)
        question = request.Conversation(
            self.messages, terms, self.is_continued, self.options, is_read=self.is_read
        )
        tokens = engine.prompt_tokens(model_id, question) if self.is_counted else None
        reading = engine.reading(model_id, question) if self.is_read else None
        yield Ask(0, self.n, partial(engine.submit, model_id, question), tokens, reading)

    def prompt(self, engine: ServingEngine, model_id: str) -> tuple[LoadedModel, str]:
        """Return the model and the text of the prompt for it."""
        text = engine.render(
            model_id, self.messages, continue_final_message=self.is_continued, options=self.options
        )
        return engine.load(model_id), text


@dataclass(frozen=True, slots=True)
class Completions:
    """Prompts to be continued `n` times each; `words` must not come.

    A prompt's choices are numbered from 0, so that it gets the same answers alone and in a list. An answer
    that `echoes` begins with its prompt; `is_counted` tells each prompt's tokens before the first text.
    """

    prompts: Sequence[Prompt]
    n: int = 1
    words: Sequence[str] = ()
    response_format: ResponseFormat | None = None
    logprobs: Logprobs | None = None
    echoes: bool = False
    is_counted: bool = False

    def asks(self, engine: ServingEngine, model_id: str, config: GenerationConfig) -> Iterator[Ask]:
        """Yield a question for each prompt."""
        config = without(engine, model_id, config, self.words)
        terms = Terms(config=config, n=self.n, response_format=self.response_format, logprobs=self.logprobs)
        for number, given in enumerate(self.prompts):
            prompt = _tokenised(engine.load(model_id), given) if self.is_counted else given
            tokens = None if isinstance(prompt, str) else len(prompt)
            submit = partial(engine.submit, model_id, request.Completion(prompt, terms))
            echo = self._echo(engine, model_id, prompt)
            yield Ask(number * self.n, self.n, submit, tokens if self.is_counted else None, echo=echo)

    def _echo(self, engine: ServingEngine, model_id: str, prompt: Prompt) -> str:
        if not self.echoes:
            return ""
        return prompt if isinstance(prompt, str) else engine.load(model_id).tokenizer.decode(prompt)


def _tokenised(model: LoadedModel, prompt: Prompt) -> Prompt:
    """Return a prompt as its tokens; one that the engine is going to refuse as it is."""
    if not isinstance(prompt, str):
        return prompt
    limit = model.decoder.context_length
    if len(prompt) > limit and model.tokenizer.least_tokens(prompt) > limit:
        return prompt
    return tuple(model.tokenizer.encode(prompt)) or prompt


@dataclass(frozen=True, slots=True)
class Within:
    """A plan for a model that has room for so many tokens; `name` is what the request calls that."""

    plan: Plan
    context_length: int
    name: str

    def asks(self, engine: ServingEngine, model_id: str, config: GenerationConfig) -> Iterator[Ask]:
        """Yield the plan's questions; raises InvalidValue when there is less room."""
        limit = engine.load(model_id).decoder.context_length
        if not 0 < self.context_length <= limit:
            raise InvalidValue(
                f"Invalid value for '{self.name}': expected 1 to {limit}, the context length of "
                f"{model_id!r}, but got {self.context_length}.",
                self.name,
            )
        yield from self.plan.asks(engine, model_id, config)


@dataclass(frozen=True, slots=True)
class Placed:
    """A plan for a model that has so many layers on a GPU; `name` is what the request calls that."""

    plan: Plan
    gpu_layers: int
    name: str

    def asks(self, engine: ServingEngine, model_id: str, config: GenerationConfig) -> Iterator[Ask]:
        """Yield the plan's questions; raises InvalidParameter when the layers are elsewhere."""
        model = engine.load(model_id)
        check_gpu_layers(self.gpu_layers, model.layers, model.device, self.name)
        yield from self.plan.asks(engine, model_id, config)


@dataclass(frozen=True, slots=True)
class Kept:
    """A plan for a model that stays in memory for so many seconds after it, or FOR_EVER."""

    plan: Plan
    seconds: float

    def asks(self, engine: ServingEngine, model_id: str, config: GenerationConfig) -> Iterator[Ask]:
        """Yield the plan's questions; the time counts from the end of the last one."""
        try:
            yield from self.plan.asks(engine, model_id, config)
        finally:
            keep(engine, model_id, self.seconds)


def keep(engine: ServingEngine, model_id: str, seconds: float) -> None:
    """Let a model that is in memory stay for so many seconds after its last use, or FOR_EVER."""
    engine.keep(model_id, None if seconds == FOR_EVER else seconds)
