"""The bodies of Anthropic's endpoints."""

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from rase_api.dialects import ANTHROPIC, Dialect
from rase_api.fields import MOST_STOPS, Ignored, NoList, Nothing, Strict, only
from rase_api.parameters import Body, TextRequest
from rase_api.plans import Conversation
from rase_api.schemas.content import as_parts, joined


class TextBlock(Strict):
    """One block of a content, also as an earlier answer had it."""

    type: Annotated[object, only("text")]
    text: str
    cache_control: Ignored = None
    citations: NoList = None


Blocks = Annotated[list[TextBlock], as_parts("text")]


class AnthropicMessage(Strict):
    """One turn of a conversation."""

    role: Literal["user", "assistant"]
    content: Blocks


class Prompted(Body):
    """What decides the prompt."""

    model: str
    messages: Annotated[list[AnthropicMessage], Field(min_length=1)]
    system: Blocks | None = None
    cache_control: Ignored = None

    tools: NoList = None
    tool_choice: Annotated[object, only({"type": "none"}, {"type": "auto"})] = None
    thinking: Annotated[object, only({"type": "disabled"})] = None
    mcp_servers: NoList = None
    output_config: Annotated[object, only({})] = None
    context_management: Annotated[object, only({})] = None

    def conversation(self) -> Conversation:
        """Return the turns: those of one role in a row are one, and a last one of the assistant goes on."""
        turns = [*self._system(), *self._turns()]
        return Conversation(turns, is_continued=turns[-1]["role"] == "assistant", is_counted=True)

    def _system(self) -> Iterator[dict[str, object]]:
        if self.system:
            yield {"role": "system", "content": joined(self.system)}

    def _turns(self) -> Iterator[dict[str, object]]:
        for role, messages in groupby(self.messages, lambda message: message.role):
            yield {"role": role, "content": "\n".join(joined(message.content) for message in messages)}


class CountRequest(Prompted):
    """The body of POST /v1/messages/count_tokens."""


class MessagesRequest(Prompted, TextRequest):
    """The body of POST /v1/messages."""

    dialect: ClassVar[Dialect] = ANTHROPIC
    prompt_name: ClassVar[str] = "messages"
    sampling: ClassVar[Mapping[str, str]] = {
        "max_tokens": "max_tokens",
        "temperature": "temperature",
        "top_k": "top_k",
        "top_p": "top_p",
        "stop_sequences": "stop",
    }

    max_tokens: int
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    stop_sequences: Annotated[list[str], Field(max_length=MOST_STOPS)] | None = None

    container: Nothing = None
    speed: Annotated[object, only("standard")] = None

    # These cannot change the text, so they are accepted and not used.
    metadata: dict[str, object] | None = None
    service_tier: str | None = None
    inference_geo: str | None = None
