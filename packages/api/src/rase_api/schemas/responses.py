"""The body of OpenAI's POST /v1/responses."""

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from rase_api.errors import InvalidValue
from rase_api.fields import Ignored, No, NoList, Nothing, Strict, only
from rase_api.plans import Conversation
from rase_api.schemas.content import as_parts, joined
from rase_api.schemas.sampling import SAMPLING, SamplingRequest


class InputText(Strict):
    """One part of a message, also as an earlier answer had it."""

    type: Annotated[object, only("input_text", "output_text")]
    text: str
    annotations: NoList = None
    logprobs: NoList = None


class InputMessage(Strict):
    """One turn of a conversation, also as an earlier answer had it."""

    type: Annotated[object, only("message")] = None
    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[list[InputText], as_parts("input_text")]
    id: Ignored = None
    status: Ignored = None
    phase: Ignored = None

    def as_turn(self) -> dict[str, object]:
        """Write the message as chat templates know it."""
        role = "system" if self.role == "developer" else self.role
        return {"role": role, "content": joined(self.content)}


def _as_messages(value: object) -> object:
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    if isinstance(value, list):
        return value
    raise PydanticCustomError("input_type", "expected a string or a list of messages")


Input = Annotated[
    list[InputMessage],
    BeforeValidator(_as_messages, json_schema_input_type=str | list[InputMessage]),
    Field(min_length=1),
]


class TextFormat(Strict):
    """How the text is to be; it can only be plain."""

    format: Annotated[object, only({"type": "text"})] = None
    verbosity: Annotated[object, only("medium")] = None


class ResponseStreamOptions(Strict):
    """What a stream carries besides the text."""

    include_obfuscation: No = None


class ResponsesRequest(SamplingRequest):
    """The body of POST /v1/responses. Nothing is kept, so there is nothing to go on with."""

    prompt_name: ClassVar[str] = "input"
    sampling: ClassVar[Mapping[str, str]] = {**SAMPLING, "max_output_tokens": "max_tokens"}

    input: Input
    instructions: str | None = None
    max_output_tokens: int | None = None
    stream_options: ResponseStreamOptions | None = None
    text: TextFormat | None = None

    previous_response_id: Nothing = None
    conversation: Nothing = None
    background: No = None
    prompt: Nothing = None
    tools: NoList = None
    tool_choice: Annotated[object, only("none", "auto")] = None
    max_tool_calls: Nothing = None
    reasoning: Annotated[object, only({})] = None
    include: NoList = None
    truncation: Annotated[object, only("disabled")] = None
    top_logprobs: Annotated[object, only(0)] = None
    context_management: NoList = None
    moderation: Nothing = None
    parallel_tool_calls: bool | None = None

    def refuse_contradictions(self) -> None:
        """Refuse options of a stream that is none."""
        if self.stream_options is not None and not self.stream:
            raise InvalidValue("'stream_options' is only allowed when 'stream' is true.", "stream_options")
        super().refuse_contradictions()

    def conversation_of(self) -> Conversation:
        """Return the instructions and the input."""
        return Conversation(list(self._turns()), words=self.words())

    def _turns(self) -> Iterator[dict[str, object]]:
        if self.instructions:
            yield {"role": "system", "content": self.instructions}
        yield from (message.as_turn() for message in self.input)
