"""The bodies of Anthropic's endpoints."""

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from rase_models.chat.options import ChatOptions, ToolChoice
from rase_models.chat.tool_calls import Tool
from rase_models.chat.variables import EFFORT, THINKS
from rase_models.constraints import ResponseFormat

from rase_api.dialects import ANTHROPIC, Dialect
from rase_api.errors import InvalidValue, MissingParameter
from rase_api.faults import Names
from rase_api.fields import MOST_STOPS, Ignored, NoList, Nothing, Strict, only
from rase_api.parameters import TextRequest
from rase_api.plans import Conversation
from rase_api.schemas.content import as_parts, joined
from rase_api.schemas.response_format import ConstrainedRequest
from rase_api.schemas.tools import MOST_TOOLS, VARIABLES, named_results


class TextBlock(Strict):
    """One block of a content, also as an earlier answer had it."""

    type: Annotated[object, only("text")]
    text: str
    cache_control: Ignored = None
    citations: NoList = None


Blocks = Annotated[list[TextBlock], as_parts("text")]


class Block(Strict):
    """One block of a message: text, a thought, a call of a tool or its result."""

    type: Annotated[object, only("text", "thinking", "redacted_thinking", "tool_use", "tool_result")]
    text: str | None = None
    thinking: str | None = None
    signature: Ignored = None
    data: Ignored = None
    id: str | None = None
    name: str | None = None
    input: dict[str, object] | None = None
    tool_use_id: str | None = None
    content: Blocks | None = None
    is_error: bool | None = None
    cache_control: Ignored = None
    citations: NoList = None

    def refuse_gaps(self, path: str) -> None:
        """Raise a RequestError for a block without what its type needs."""
        for name in NEEDS.get(str(self.type), ()):
            if getattr(self, name) is None:
                raise MissingParameter(f"Missing required parameter: '{path}.{name}'.", f"{path}.{name}")


NEEDS: Mapping[str, tuple[str, ...]] = {
    "text": ("text",),
    "thinking": ("thinking",),
    "tool_use": ("id", "name", "input"),
    "tool_result": ("tool_use_id",),
}


class AnthropicMessage(Strict):
    """One turn of a conversation."""

    role: Literal["user", "assistant"]
    content: Annotated[list[Block], as_parts("text")]


class AnthropicTool(Strict):
    """A tool that the client runs."""

    name: str
    description: str | None = None
    input_schema: dict[str, object]
    type: Annotated[object, only("custom")] = None
    strict: bool | None = None
    cache_control: Ignored = None

    def tool(self) -> Tool:
        """Return the tool."""
        return Tool(self.name, self.description or "", self.input_schema)


class AnthropicChoice(Strict):
    """Whether tools are called."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class Thinking(Strict):
    """Whether the model thinks; how long is its own affair, whatever the budget."""

    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: int | None = None
    display: Ignored = None


class OutputFormat(Strict):
    """The JSON schema that the text must be of."""

    type: Literal["json_schema"]
    schema_: Annotated[dict[str, object], Field(alias="schema")]


class OutputConfig(Strict):
    """How much the model thinks, and what the text must look like."""

    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: OutputFormat | None = None


class Prompted(ConstrainedRequest):
    """What decides the prompt, and what the answer must look like."""

    format_parameter: ClassVar[str] = "output_config.format"

    model: str
    messages: Annotated[list[AnthropicMessage], Field(min_length=1)]
    system: Blocks | None = None
    cache_control: Ignored = None

    tools: Annotated[list[AnthropicTool], Field(max_length=MOST_TOOLS)] | None = None
    tool_choice: AnthropicChoice | None = None
    thinking: Thinking | None = None
    mcp_servers: NoList = None
    output_config: OutputConfig | None = None
    output_format: OutputFormat | None = None
    context_management: Annotated[object, only({})] = None

    @property
    def prompt_names(self) -> Names:
        """The prompt, or variable of the template -> the name by which this request gave it."""
        thinking = zip(VARIABLES, ("thinking", "output_config.effort"), strict=True)
        return {"prompt": "messages", **dict(thinking)}

    def refuse_contradictions(self) -> None:
        """Refuse blocks without what they need, and two formats."""
        super().refuse_contradictions()
        self.constraint()
        for index, message in enumerate(self.messages):
            for number, block in enumerate(message.content):
                block.refuse_gaps(f"messages[{index}].content[{number}]")

    def conversation(self) -> Conversation:
        """Return the turns: those of one role in a row are one, and a last one of the assistant goes on."""
        turns = named_results([*self._system(), *self._turns()])
        is_continued = turns[-1]["role"] == "assistant"
        return Conversation(
            turns,
            is_continued=is_continued,
            is_counted=True,
            response_format=self.constraint(),
            options=self._options(),
            is_read=True,
        )

    def own_format(self) -> tuple[bool, ResponseFormat | None]:
        """Tell whether there is a format, by its newer name or its older one, and what it demands."""
        config = self.output_config.format if self.output_config is not None else None
        if config is not None and self.output_format is not None:
            raise InvalidValue(
                "'output_config.format' and 'output_format' cannot be combined.", "output_format"
            )
        form = config or self.output_format
        return form is not None, None if form is None else ResponseFormat.json_schema(form.schema_)

    def _options(self) -> ChatOptions:
        choice = self.tool_choice or AnthropicChoice(type="auto")
        effort = self.output_config.effort if self.output_config is not None else None
        thinks: dict[str, object] = {} if effort is None else {EFFORT: effort}
        if self.thinking is not None and self.thinking.type != "adaptive":  # adaptive: as the model does
            thinks[THINKS] = self.thinking.type == "enabled"
        return ChatOptions(
            tools=tuple(tool.tool() for tool in self.tools or ()),
            tool_choice=CHOICES.get(choice.type, choice.name or ""),
            parallel_tool_calls=choice.disable_parallel_tool_use is not True,
            variables=thinks,
            is_lenient=self._is_lenient,
        )

    def _system(self) -> Iterator[dict[str, object]]:
        if self.system:
            yield {"role": "system", "content": joined(self.system)}

    def _turns(self) -> Iterator[dict[str, object]]:
        for role, messages in groupby(self.messages, lambda message: message.role):
            blocks = [block for message in messages for block in message.content]
            yield from (_result(block) for block in blocks if block.type == "tool_result")
            is_results = bool(blocks) and all(block.type == "tool_result" for block in blocks)
            if role == "assistant" or not is_results:
                yield _turn(role, blocks)


CHOICES: Mapping[str, ToolChoice] = {
    "auto": ToolChoice.AUTO,
    "any": ToolChoice.REQUIRED,
    "none": ToolChoice.NONE,
}


def _result(block: Block) -> dict[str, object]:
    """Write what a tool has returned as chat templates know it."""
    return {"role": "tool", "tool_call_id": block.tool_use_id, "content": joined(block.content)}


def _turn(role: str, blocks: list[Block]) -> dict[str, object]:
    """Write what was said, thought and called as chat templates know it."""
    calls = [
        {"id": block.id, "type": "function", "function": {"name": block.name, "arguments": block.input}}
        for block in blocks
        if block.type == "tool_use"
    ]
    thought = "\n".join(block.thinking for block in blocks if block.thinking is not None)
    turn: dict[str, object] = {
        "role": role,
        "content": "\n".join(block.text for block in blocks if block.text is not None),
    }
    turn |= {"tool_calls": calls} if calls else {}
    return turn | ({"reasoning_content": thought} if thought else {})


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

    @property
    def names(self) -> Names:
        """Field of GenerationConfig, or a template's variable -> the name by which this request gave it."""
        name = "output_format" if self.output_format is not None else self.format_name
        return {**super().names, **self.prompt_names, "response_format": name}
