"""What is asked of a model, and the scheduler's request that it becomes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from rase_core.sampling import GenerationConfig
from rase_core.scheduler import GenerationRequest

from rase_models.chat import encode_chat
from rase_models.constraints import ResponseFormat
from rase_models.session import Session
from rase_models.tokenizers import Tokenizer

Prompt = str | Sequence[int]
Messages = Sequence[Mapping[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How an answer is made.

    Attributes:
        config: None for the model's own settings.
        choice: sets apart the answers of one seed; of `n` answers it is the number of the first.
        timeout: the most seconds from asking to the end.
        response_format: what the answer must look like; None for any text.
    """

    config: GenerationConfig | None = None
    choice: int = 0
    n: int = 1
    timeout: float | None = None
    response_format: ResponseFormat | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """A text, or tokens, to be continued."""

    prompt: Prompt
    terms: Terms = Terms()

    def request(self, session: Session) -> GenerationRequest:
        """Return the request to a model. Raises UnenforceableFormat."""
        request = self.request_with(session.tokenizer, session.manifest.default_config())
        return _held_to(self.terms.response_format, request, session)

    def request_with(self, tokenizer: Tokenizer, defaults: GenerationConfig) -> GenerationRequest:
        """Return the request to a model of this tokenizer, without a format."""
        tokens = tokenizer.encode(self.prompt) if isinstance(self.prompt, str) else self.prompt
        return _request(tokens, tokenizer, self.terms, defaults, continues=True)


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages to be answered, or the last of them to be gone on with."""

    messages: Messages
    terms: Terms = Terms()
    continue_final_message: bool = False

    def request(self, session: Session) -> GenerationRequest:
        """Return the request to a model.

        Raises TemplateError for want of a template, InvalidConversation, UnenforceableFormat.
        """
        continues, tokenizer = self.continue_final_message, session.tokenizer
        tokens = encode_chat(session.template, tokenizer, self.messages, continue_final_message=continues)
        defaults = session.manifest.default_config()
        request = _request(tokens, tokenizer, self.terms, defaults, continues=continues)
        return _held_to(self.terms.response_format, request, session)


Question = Completion | Conversation


def _request(
    tokens: Sequence[int],
    tokenizer: Tokenizer,
    terms: Terms,
    defaults: GenerationConfig,
    *,
    continues: bool,
) -> GenerationRequest:
    return GenerationRequest(
        tokens,
        _complete(defaults if terms.config is None else terms.config, tokenizer),
        partial(tokenizer.detokenizer, continues=continues),
        terms.choice,
        terms.n,
        terms.timeout,
    )


def _held_to(form: ResponseFormat | None, request: GenerationRequest, session: Session) -> GenerationRequest:
    """Hold the answers to a format; no space is taken from their beginnings, which the rules know of."""
    if form is None:
        return request
    return replace(
        request,
        constraints=session.formats.compile(form),
        detokenizers=partial(session.tokenizer.detokenizer, continues=True),
    )


def _complete(config: GenerationConfig, tokenizer: Tokenizer) -> GenerationConfig:
    """Let the tokenizer's end tokens end the answer, too: an attached one may know more than the GGUF."""
    if config.ignore_eos:
        return config
    return replace(config, stop_tokens=config.stop_tokens | tokenizer.eos_token_ids)
