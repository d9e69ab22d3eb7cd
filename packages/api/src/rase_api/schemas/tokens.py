"""The bodies of the routes around tokens: llama-server's and vLLM's names."""

from typing import Annotated

from pydantic import Field

from rase_api.errors import InvalidValue
from rase_api.parameters import Body
from rase_api.schemas.openai import ChatRequest, Message

MOST_TOKENS = 2**18
"""Of one request or answer."""


class TokenizeRequest(Body):
    """The body of POST /tokenize: a text as llama-server's `content` or vLLM's `prompt`, or messages."""

    model: str | None = None
    content: str | None = None
    prompt: str | None = None
    messages: Annotated[list[Message], Field(min_length=1)] | None = None
    add_special: bool | None = None
    add_special_tokens: bool | None = None
    parse_special: bool | None = None
    with_pieces: bool | None = None
    return_token_strs: bool | None = None

    def refuse_contradictions(self) -> None:
        """Refuse no text, several, and settings that the messages' template decides."""
        given = [name for name in ("content", "prompt", "messages") if getattr(self, name) is not None]
        if len(given) != 1:
            raise InvalidValue(
                "One of 'content', 'prompt' and 'messages' is needed, and only one.", "content"
            )
        settings = [name for name in ADDING if getattr(self, name) is not None]
        if len(settings) > 1 or (settings and self.messages is not None):
            raise InvalidValue(f"'{settings[-1]}' does not go with the other parameters.", settings[-1])
        for index, message in enumerate(self.messages or ()):
            message.refuse_gaps(f"messages[{index}]")

    @property
    def given(self) -> str:
        """The name of what is to be tokenised."""
        return next(name for name in ("content", "prompt", "messages") if getattr(self, name) is not None)

    @property
    def text(self) -> str:
        """The text that was given."""
        return self.content if self.content is not None else self.prompt or ""

    @property
    def adds_special_tokens(self) -> bool:
        """Whether BOS is added: when asked for, and to a `prompt`, as each of the two servers does."""
        asked = self.add_special if self.add_special is not None else self.add_special_tokens
        return self.prompt is not None if asked is None else asked

    @property
    def parses_special_tokens(self) -> bool:
        """Whether the spelling of a special token is that token."""
        return self.parse_special is not False


ADDING = ("add_special", "add_special_tokens")


class DetokenizeRequest(Body):
    """The body of POST /detokenize."""

    model: str | None = None
    tokens: Annotated[list[int], Field(max_length=MOST_TOKENS)]


class TemplateRequest(ChatRequest):
    """The body of POST /apply-template: one of POST /v1/chat/completions, to be shown and not answered."""

    add_generation_prompt: bool | None = None
