"""The bodies of OpenAI's two older text endpoints."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from rase_core.logprobs import Logprobs

from rase_api.errors import InvalidValue, MissingParameter, UnsupportedParameter
from rase_api.faults import Names
from rase_api.fields import Choices, Ignored, No, NoList, NoText, Nothing, Strict, TopLogprobs, only
from rase_api.schemas.content import TextPart, as_parts, joined
from rase_api.schemas.prompts import Prompt, Prompts, prompts_of, refuse_too_many
from rase_api.schemas.response_format import FormattedRequest
from rase_api.schemas.sampling import SAMPLING, SamplingRequest
from rase_api.schemas.tools import ToolingRequest, WrittenCall, named_results


class StreamOptions(Strict):
    """What a stream carries besides the text."""

    include_usage: bool | None = None
    include_obfuscation: No = None


class OpenAIRequest(SamplingRequest, FormattedRequest):
    """What chat and completions share."""

    sampling: ClassVar[Mapping[str, str]] = {
        **SAMPLING,
        "max_tokens": "max_tokens",
        "max_completion_tokens": "max_tokens",
    }

    stream_options: StreamOptions | None = None
    n: Choices | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None

    @property
    def choices(self) -> int:
        """How many answers each prompt gets."""
        return 1 if self.n is None else self.n

    @property
    def names(self) -> Names:
        """Field of GenerationConfig -> the name by which this request gave it."""
        return {**super().names, "response_format": self.format_name}

    @property
    def has_usage_chunk(self) -> bool:
        """Whether a stream ends with a chunk that counts tokens."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    def refuse_contradictions(self) -> None:
        """Refuse options of a stream that is none, and two formats."""
        self.constraint()
        if self.stream_options is not None and not self.stream:
            raise InvalidValue("'stream_options' is only allowed when 'stream' is true.", "stream_options")
        super().refuse_contradictions()


Content = Annotated[list[TextPart] | None, as_parts("text")]


class Message(Strict):
    """One turn of a conversation, also as the official client sends an earlier answer back."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Content = None
    name: str | None = None
    cache_control: Ignored = None
    refusal: NoText = None
    annotations: NoList = None
    tool_calls: list[WrittenCall] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    function_call: Nothing = None
    audio: Nothing = None

    def refuse_gaps(self, path: str) -> None:
        """Raise a RequestError for a message without content, or with what another role has."""
        if self.role == "function":
            raise UnsupportedParameter(
                f"Unsupported parameter: '{path}.role': use the role 'tool'.", f"{path}.role"
            )
        for name, role in (("tool_calls", "assistant"), ("tool_call_id", "tool")):
            if getattr(self, name) and self.role != role:
                raise InvalidValue(
                    f"'{path}.{name}' is only allowed with the role {role!r}.", f"{path}.{name}"
                )
        self.calls(path)
        if "content" not in self.model_fields_set and not self.tool_calls:
            raise MissingParameter(f"Missing required parameter: '{path}.content'.", f"{path}.content")
        if self.content is None and not self.tool_calls:
            raise InvalidValue(f"Invalid value for '{path}.content': expected a text.", f"{path}.content")

    def calls(self, path: str = "message") -> list[dict[str, object]]:
        """Return the calls as templates know them; raises InvalidValue for arguments that are no JSON."""
        return [
            call.as_turn(f"{path}.tool_calls[{index}]") for index, call in enumerate(self.tool_calls or ())
        ]

    def as_turn(self) -> dict[str, object]:
        """Write the message as chat templates know it: text parts joined by newlines, developer as system."""
        turn: dict[str, object] = {
            "role": "system" if self.role == "developer" else self.role,
            "content": joined(self.content),
            "name": self.name,
            "tool_calls": self.calls() or None,
            "tool_call_id": self.tool_call_id,
            "reasoning_content": self.reasoning_content or self.reasoning,
        }
        return {key: value for key, value in turn.items() if value is not None}


class ChatRequest(OpenAIRequest, ToolingRequest):
    """The body of POST /v1/chat/completions."""

    prompt_name: ClassVar[str] = "messages"

    messages: Annotated[list[Message], Field(min_length=1)]
    continue_final_message: bool | None = None
    add_generation_prompt: Annotated[object, only(True)] = None

    logprobs: bool | None = None
    top_logprobs: TopLogprobs | None = None
    functions: NoList = None
    function_call: Annotated[object, only("none", "auto")] = None
    verbosity: Annotated[object, only("medium")] = None
    modalities: Annotated[object, only(["text"])] = None
    audio: Nothing = None
    prediction: Nothing = None
    web_search_options: Nothing = None

    def refuse_contradictions(self) -> None:
        """Refuse messages without content, odd tools, and what cannot be gone on with."""
        super().refuse_contradictions()
        if self.top_logprobs and not self.logprobs:
            raise InvalidValue("'top_logprobs' needs 'logprobs' to be true.", "top_logprobs")
        self.options()
        for index, message in enumerate(self.messages):
            message.refuse_gaps(f"messages[{index}]")
        if self.continue_final_message and self.messages[-1].role != "assistant":
            raise InvalidValue(
                "'continue_final_message' needs a last message of the assistant.", "continue_final_message"
            )

    @property
    def names(self) -> Names:
        """Field of GenerationConfig, or a template's variable -> the name by which this request gave it."""
        return {**super().names, **self.variable_names}

    def told(self) -> Logprobs | None:
        """Return what is told of probabilities."""
        return Logprobs(self.top_logprobs or 0) if self.logprobs else None

    def turns(self) -> list[dict[str, object]]:
        """Return the conversation as chat templates know it."""
        return named_results([message.as_turn() for message in self.messages])


class CompletionRequest(OpenAIRequest):
    """The body of POST /v1/completions."""

    prompt: Prompts

    best_of: Annotated[object, only(1)] = None
    echo: bool | None = None
    logprobs: TopLogprobs | None = None
    suffix: NoText = None

    def refuse_contradictions(self) -> None:
        """Refuse too many choices of too many prompts, and a stream of what is told of prompts."""
        super().refuse_contradictions()
        if self.stream and self.echo and self.logprobs is not None:
            raise UnsupportedParameter(
                "Unsupported parameter: 'echo' does not go with both 'logprobs' and 'stream'.", "echo"
            )
        refuse_too_many(self.prompt, self.choices, "n")

    def told(self) -> Logprobs | None:
        """Return what is told of probabilities."""
        return None if self.logprobs is None else Logprobs(self.logprobs, of_prompt=bool(self.echo))

    def prompts(self) -> list[Prompt]:
        """Return the prompts, each a text or token ids."""
        return prompts_of(self.prompt)
