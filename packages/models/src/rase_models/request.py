"""What is asked of a model, and the scheduler's request that it becomes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import NoneType
from typing import TypedDict, Unpack

from rase_core.deadline import check_timeout
from rase_core.errors import ContextOverflow, InvalidParameter
from rase_core.logprobs import Logprobs
from rase_core.sampling import GenerationConfig
from rase_core.scheduler import GenerationRequest

from rase_models.chat import ChatTemplate
from rase_models.chat.dialect import chat_dialect
from rase_models.chat.options import ChatOptions
from rase_models.chat.prompt import chat_prompt
from rase_models.chat.reply import Reading
from rase_models.chat_rules import ChatRules, held_to
from rase_models.constraints import ResponseFormat
from rase_models.session import Session
from rase_models.tokenizers import Tokenizer
from rase_models.tokenizers.tokenizer import LONG

Prompt = str | Sequence[int]
Messages = Sequence[Mapping[str, object]]


class TermOptions(TypedDict, total=False):
    """What every method that answers may be given, by name; see Terms."""

    choice: int
    timeout: float | None
    response_format: ResponseFormat | None
    logprobs: Logprobs | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How an answer is made.

    Attributes:
        config: None for the model's own settings.
        choice: sets apart the answers of one seed; of `n` answers it is the number of the first.
        timeout: the most seconds from asking to the end.
        response_format: what the answer must look like; None for any text.
        logprobs: what is told of the probabilities of tokens; None for nothing.
    """

    config: GenerationConfig | None = None
    choice: int = 0
    n: int = 1
    timeout: float | None = None
    response_format: ResponseFormat | None = None
    logprobs: Logprobs | None = None

    @classmethod
    def of(cls, config: GenerationConfig | None, n: int = 1, /, **options: Unpack[TermOptions]) -> "Terms":
        """Return the terms that a method of an engine was given. Raises TypeError for an unknown option."""
        for name in options.keys() - TermOptions.__annotations__.keys():
            raise TypeError(_unknown(name))
        return cls(config=config, n=n, **options)

    def __post_init__(self) -> None:
        """Raise InvalidParameter for a value of another type, and for a timeout of nothing."""
        for name, (kinds, expected) in _KINDS.items():
            value = getattr(self, name)
            if not isinstance(value, kinds) or isinstance(value, bool):
                raise InvalidParameter(name, value, expected)
        check_timeout(self.timeout)


_KINDS: Mapping[str, tuple[tuple[type, ...], str]] = {
    "config": ((GenerationConfig, NoneType), "a GenerationConfig or None"),
    "choice": ((int,), "a whole number"),
    "n": ((int,), "a whole number"),
    "timeout": ((int, float, NoneType), "a number of seconds or None"),
    "response_format": ((ResponseFormat, NoneType), "a ResponseFormat or None"),
    "logprobs": ((Logprobs, NoneType), "Logprobs or None"),
}
"""Of the fields of Terms."""


def _unknown(name: str) -> str:
    if name == "n":
        advice = "several answers come of generate_choices and chat_choices"
    else:
        advice = f"besides its own arguments the method takes {', '.join(TermOptions.__annotations__)}"
    return f"got an unexpected keyword argument {name!r}: {advice}"


@dataclass(frozen=True, slots=True)
class Completion:
    """A text, or tokens, to be continued."""

    prompt: Prompt
    terms: Terms = Terms()

    def request(self, session: Session) -> GenerationRequest:
        """Return the request to a model.

        Raises InvalidParameter for what is no prompt, UnencodableText, UnenforceableFormat, and
        ContextOverflow for a text that is much too long, which is not even tokenised.
        """
        limit, defaults = session.decoder.context_length, session.manifest.default_config()
        request = self.request_with(session.tokenizer, defaults, limit)
        return held_to(request, self.terms.response_format, session)

    def request_with(
        self, tokenizer: Tokenizer, defaults: GenerationConfig, context_length: int
    ) -> GenerationRequest:
        """Return the request to a model of this tokenizer, without a format; raises as `request` does."""
        prompt = _checked(self.prompt)
        if isinstance(prompt, str):
            refuse_long(prompt, tokenizer, context_length)
            prompt = _tokens(prompt, tokenizer.encode(prompt))
        return _request(prompt, tokenizer, self.terms, defaults, continues=True)


class _Prompts:
    """The prompt that a conversation became last, by what made it: several parts of a request ask for it."""

    def __init__(self) -> None:
        self._text: tuple[ChatTemplate, str] | None = None
        self._tokens: tuple[Tokenizer, str, Sequence[int]] | None = None

    def text(self, template: ChatTemplate, render: Callable[[], str]) -> str:
        """Return what `render` gives for this template."""
        known = self._text
        if known is None or known[0] is not template:
            known = self._text = (template, render())
        return known[1]

    def tokens(self, tokenizer: Tokenizer, text: str) -> Sequence[int]:
        """Return the tokens of a prompt."""
        known = self._tokens
        if known is None or known[0] is not tokenizer or known[1] != text:
            known = self._tokens = (tokenizer, text, tokenizer.encode_prompt(text))
        return known[2]


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages to be answered, or the last of them to be gone on with.

    An answer that `is_read` has the markers of thoughts and calls in its text, also those that are special
    tokens. Its prompt is made once for a model in memory: messages and options are not to change.
    """

    messages: Messages
    terms: Terms = Terms()
    continue_final_message: bool = False
    options: ChatOptions = field(default_factory=ChatOptions)
    is_read: bool = False
    _prompts: _Prompts = field(default_factory=_Prompts, init=False, repr=False, compare=False)

    def request(self, session: Session) -> GenerationRequest:
        """Return the request to a model.

        Raises TemplateError for want of a template, InvalidConversation, InvalidParameter for tools that the
        template teaches no calls of, UnencodableText, UnenforceableFormat, and ContextOverflow early.
        """
        prompt, tokenizer = self.prompt(session), session.tokenizer
        tokens = _tokens(prompt, self.tokens(session))
        defaults, continues = session.manifest.default_config(), self.continue_final_message
        request = _request(tokens, tokenizer, self.terms, defaults, continues=continues)
        return self._rules(session).applied(request, self.terms.response_format)

    def tokens(self, session: Session) -> Sequence[int]:
        """Return the tokens of the prompt; raises what `prompt` raises, and ContextOverflow early."""
        prompt = self.prompt(session)
        refuse_long(prompt, session.tokenizer, session.decoder.context_length)
        return self._prompts.tokens(session.tokenizer, prompt)

    def prompt(self, session: Session) -> str:
        """Return the text of the prompt."""
        render = partial(
            chat_prompt,
            session.template,
            session.tokenizer,
            self.messages,
            self.options,
            continue_final_message=self.continue_final_message,
        )
        return self._prompts.text(session.template, render)

    def reading(self, session: Session) -> Reading:
        """Return what reads the answers, which are to be `is_read`; raises as `request` does."""
        dialect, prompt = chat_dialect(session.template.source), self.prompt(session)
        held = self._rules(session).held(self.terms.response_format)
        return dialect.reading(prompt, self.options, self._continued, held)

    def _rules(self, session: Session) -> ChatRules:
        prompt = self.prompt(session)
        return ChatRules(session, self.options, prompt, self._continued, is_read=self.is_read)

    @property
    def _continued(self) -> str:
        """The text that is gone on with."""
        return str(self.messages[-1].get("content", "")) if self.continue_final_message else ""


Question = Completion | Conversation


def refuse_long(text: str, tokenizer: Tokenizer, context_length: int) -> None:
    """Raise ContextOverflow for a text that cannot fit, where that can be told without tokenising it."""
    if len(text) > max(LONG, context_length):
        tokens = tokenizer.least_tokens(text)
        if tokens > context_length:
            raise ContextOverflow(tokens, context_length, is_least=True)


def _checked(prompt: Prompt) -> Prompt:
    """Return a prompt, or raise InvalidParameter for what is neither text nor a list of numbers."""
    is_list = hasattr(prompt, "__len__") and hasattr(prompt, "__getitem__")
    if not is_list or isinstance(prompt, bytes | bytearray | memoryview | Mapping):
        raise InvalidParameter("prompt", prompt, "a string or a list of token ids")
    return prompt


def _tokens(text: str, tokens: Sequence[int]) -> Sequence[int]:
    """Return the tokens of a text, or raise InvalidParameter where there are none."""
    if not tokens:
        raise InvalidParameter("prompt", text, "a text of at least one token")
    return tokens


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
        logprobs=terms.logprobs,
        prompt_detokenizers=tokenizer.detokenizer,
    )


def _complete(config: GenerationConfig, tokenizer: Tokenizer) -> GenerationConfig:
    """Let the tokenizer's end tokens end the answer, too: an attached one may know more than the GGUF."""
    if config.ignore_eos:
        return config
    return replace(config, stop_tokens=config.stop_tokens | tokenizer.eos_token_ids)
