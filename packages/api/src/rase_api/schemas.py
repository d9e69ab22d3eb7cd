"""The bodies of OpenAI's two text endpoints, as pydantic models."""

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from rase_api.errors import InvalidValue, UnsupportedParameter
from rase_api.parameters import Parameters, Strict, only

MOST_PROMPTS = 2048

Prompt = str | tuple[int, ...]


class TextPart(Strict):
    """One part of a message's content."""

    type: Annotated[object, only("text")]
    text: str
    cache_control: object = None


def _as_parts(value: object) -> object:
    if isinstance(value, str):
        return [{"type": "text", "text": value}]
    if value is None or isinstance(value, list):
        return value
    raise PydanticCustomError("content_type", "expected a string or a list of text parts")


Content = Annotated[
    list[TextPart] | None, BeforeValidator(_as_parts, json_schema_input_type=str | list[TextPart] | None)
]


class Message(Strict):
    """One turn of a conversation, also as the official client sends an earlier answer back."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Content
    name: str | None = None
    cache_control: object = None
    refusal: Annotated[object, only("")] = None
    annotations: Annotated[object, only([])] = None
    tool_calls: Annotated[object, only([])] = None
    tool_call_id: Annotated[object, only()] = None
    function_call: Annotated[object, only()] = None
    audio: Annotated[object, only()] = None

    def refuse_gaps(self, path: str) -> None:
        """Raise a RequestError for a message that only makes sense with tools."""
        if self.role in ("tool", "function"):
            raise UnsupportedParameter(
                f"Unsupported parameter: '{path}.role': tools are not supported.", f"{path}.role"
            )
        if self.content is None:
            raise InvalidValue(f"Invalid value for '{path}.content': expected a text.", f"{path}.content")

    def as_turn(self) -> dict[str, object]:
        """Write the message as chat templates know it: text parts joined by newlines, developer as system."""
        turn: dict[str, object] = {
            "role": "system" if self.role == "developer" else self.role,
            "content": "\n".join(part.text for part in self.content or ()),
        }
        return turn if self.name is None else turn | {"name": self.name}


class ChatRequest(Parameters):
    """The body of POST /v1/chat/completions."""

    prompt_name: ClassVar[str] = "messages"

    messages: Annotated[list[Message], Field(min_length=1)]
    continue_final_message: bool | None = None
    add_generation_prompt: Annotated[object, only(True)] = None
    chat_template_kwargs: Annotated[object, only({})] = None

    logprobs: Annotated[object, only(False)] = None
    top_logprobs: Annotated[object, only(0)] = None
    response_format: Annotated[object, only({"type": "text"})] = None
    tools: Annotated[object, only([])] = None
    tool_choice: Annotated[object, only("none", "auto")] = None
    parallel_tool_calls: bool | None = None
    functions: Annotated[object, only([])] = None
    function_call: Annotated[object, only("none", "auto")] = None
    reasoning_effort: Annotated[object, only()] = None
    verbosity: Annotated[object, only("medium")] = None
    modalities: Annotated[object, only(["text"])] = None
    audio: Annotated[object, only()] = None
    prediction: Annotated[object, only()] = None
    web_search_options: Annotated[object, only()] = None

    def _refuse_contradictions(self) -> None:
        super()._refuse_contradictions()
        for index, message in enumerate(self.messages):
            message.refuse_gaps(f"messages[{index}]")
        if self.continue_final_message and self.messages[-1].role != "assistant":
            raise InvalidValue(
                "'continue_final_message' needs a last message of the assistant.", "continue_final_message"
            )

    def turns(self) -> list[dict[str, object]]:
        """Return the conversation as chat templates know it."""
        return [message.as_turn() for message in self.messages]


def _as_prompts(value: object) -> object:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        if value and all(type(item) is int for item in value):
            return [tuple(value)]
        return [_prompt(item) for item in value]
    raise PydanticCustomError("prompt_type", "expected a string, a list of strings or a list of token ids")


def _prompt(item: object) -> Prompt:
    if isinstance(item, str):
        return item
    if isinstance(item, list) and all(type(token) is int for token in item):
        return tuple(item)
    raise PydanticCustomError("prompt_type", "each prompt must be a string or a list of token ids")


Prompts = Annotated[
    list[object],
    BeforeValidator(_as_prompts, json_schema_input_type=str | list[str] | list[int] | list[list[int]]),
    Field(min_length=1, max_length=MOST_PROMPTS),
]


class CompletionRequest(Parameters):
    """The body of POST /v1/completions."""

    prompt: Prompts

    best_of: Annotated[object, only(1)] = None
    echo: Annotated[object, only(False)] = None
    logprobs: Annotated[object, only()] = None
    suffix: Annotated[object, only("")] = None

    def prompts(self) -> list[Prompt]:
        """Return the prompts, each a text or token ids."""
        return [prompt for prompt in self.prompt if isinstance(prompt, str | tuple)]
