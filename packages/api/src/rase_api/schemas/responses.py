"""The body of OpenAI's POST /v1/responses."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError
from rase_core.logprobs import Logprobs
from rase_models.chat.options import ChatOptions, ToolChoice
from rase_models.chat.variables import EFFORT
from rase_models.constraints import ResponseFormat

from rase_api.errors import InvalidValue, MissingParameter
from rase_api.faults import Names
from rase_api.fields import Ignored, No, NoList, Nothing, Strict, TopLogprobs, only
from rase_api.plans import Conversation
from rase_api.schemas.content import as_parts, joined
from rase_api.schemas.response_format import ConstrainedRequest
from rase_api.schemas.sampling import SAMPLING, SamplingRequest
from rase_api.schemas.tools import MOST_TOOLS, VARIABLES, FunctionParam, named_results, parsed_arguments


class InputText(Strict):
    """One part of a message, also as an earlier answer had it."""

    type: Annotated[object, only("input_text", "output_text", "reasoning_text")]
    text: str
    annotations: NoList = None
    logprobs: Ignored = None


class InputItem(Strict):
    """A message, a thought, a call of a tool or its result, also as an earlier answer had it."""

    type: Annotated[object, only("message", "reasoning", "function_call", "function_call_output")] = None
    role: Literal["system", "developer", "user", "assistant"] | None = None
    content: Annotated[list[InputText], as_parts("input_text")] | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    output: str | None = None
    summary: NoList = None
    encrypted_content: Nothing = None
    id: Ignored = None
    status: Ignored = None
    phase: Ignored = None

    def refuse_gaps(self, path: str) -> None:
        """Raise a RequestError for an item without what its type needs."""
        for name in NEEDS[str(self.type or "message")]:
            if getattr(self, name) is None:
                raise MissingParameter(f"Missing required parameter: '{path}.{name}'.", f"{path}.{name}")
        if self.arguments is not None:
            parsed_arguments(self.arguments, f"{path}.arguments")

    def as_turn(self) -> dict[str, object]:
        """Write the item as chat templates know it: a thought and a call as messages of their own."""
        match self.type:
            case "reasoning":
                return {"role": "assistant", "content": "", "reasoning_content": joined(self.content)}
            case "function_call":
                arguments = parsed_arguments(self.arguments or "", "arguments")
                function = {"name": self.name, "arguments": arguments}
                call = {"id": self.call_id, "type": "function", "function": function}
                return {"role": "assistant", "content": "", "tool_calls": [call]}
            case "function_call_output":
                return {"role": "tool", "tool_call_id": self.call_id, "content": self.output}
            case _:
                role = "system" if self.role == "developer" else self.role
                return {"role": role, "content": joined(self.content)}


NEEDS: Mapping[str, tuple[str, ...]] = {
    "message": ("role", "content"),
    "reasoning": (),
    "function_call": ("call_id", "name", "arguments"),
    "function_call_output": ("call_id", "output"),
}


def _as_messages(value: object) -> object:
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    if isinstance(value, list):
        return value
    raise PydanticCustomError("input_type", "expected a string or a list of messages")


Input = Annotated[
    list[InputItem],
    BeforeValidator(_as_messages, json_schema_input_type=str | list[InputItem]),
    Field(min_length=1),
]


class TextFormat(Strict):
    """What the text must look like; every schema is enforced, `strict` or not."""

    type: Literal["text", "json_object", "json_schema"]
    name: str | None = None
    description: str | None = None
    schema_: Annotated[dict[str, object] | None, Field(alias="schema")] = None
    strict: bool | None = None

    def format(self) -> ResponseFormat | None:
        """Return the format; None for any text."""
        if self.type == "json_schema" and self.schema_ is not None:
            return ResponseFormat.json_schema(self.schema_)
        return None if self.type == "text" else ResponseFormat.json_object()


class TextOptions(Strict):
    """How the text is to be."""

    format: TextFormat | None = None
    verbosity: Annotated[object, only("medium")] = None


class ReasoningOptions(Strict):
    """How much the model thinks; the thought itself is what it is, and no summary."""

    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    summary: Ignored = None
    generate_summary: Ignored = None

    def variables(self) -> dict[str, object]:
        """Return what the template is told."""
        return {} if self.effort is None else {EFFORT: self.effort}


class FunctionTool(FunctionParam):
    """A tool."""

    type: Annotated[object, only("function")]


class ChosenTool(Strict):
    """The tool that must be called."""

    type: Literal["function"]
    name: str


class ResponseStreamOptions(Strict):
    """What a stream carries besides the text."""

    include_obfuscation: No = None


Included = Annotated[object, only([], ["message.output_text.logprobs"])]


class ResponsesRequest(SamplingRequest, ConstrainedRequest):
    """The body of POST /v1/responses. Nothing is kept, so there is nothing to go on with."""

    prompt_name: ClassVar[str] = "input"
    format_parameter: ClassVar[str] = "text.format"
    sampling: ClassVar[Mapping[str, str]] = {**SAMPLING, "max_output_tokens": "max_tokens"}

    input: Input
    instructions: str | None = None
    max_output_tokens: int | None = None
    stream_options: ResponseStreamOptions | None = None
    text: TextOptions | None = None

    previous_response_id: Nothing = None
    conversation: Nothing = None
    background: No = None
    prompt: Nothing = None
    tools: Annotated[list[FunctionTool], Field(max_length=MOST_TOOLS)] | None = None
    tool_choice: Literal["none", "auto", "required"] | ChosenTool | None = None
    max_tool_calls: Nothing = None
    reasoning: ReasoningOptions | None = None
    include: Included = None
    truncation: Annotated[object, only("disabled")] = None
    top_logprobs: TopLogprobs | None = None
    context_management: NoList = None
    moderation: Nothing = None
    parallel_tool_calls: bool | None = None

    @property
    def names(self) -> Names:
        """Field of GenerationConfig, or a template's variable -> the name by which this request gave it."""
        variables = dict.fromkeys(VARIABLES, "reasoning.effort")
        return {**super().names, **variables, "response_format": self.format_name}

    def refuse_contradictions(self) -> None:
        """Refuse options of a stream that is none, items without what they need, and odd tools."""
        if self.stream_options is not None and not self.stream:
            raise InvalidValue("'stream_options' is only allowed when 'stream' is true.", "stream_options")
        for index, item in enumerate(self.input):
            item.refuse_gaps(f"input[{index}]")
        self.options()
        self.constraint()
        super().refuse_contradictions()

    def own_format(self) -> tuple[bool, ResponseFormat | None]:
        """Tell whether there is a `text.format`, and what it demands."""
        form = self.text.format if self.text is not None else None
        return form is not None, None if form is None else form.format()

    def options(self) -> ChatOptions:
        """Return what the conversation is answered with. Raises InvalidParameter."""
        choice = self.tool_choice
        return ChatOptions(
            tools=tuple(param.tool() for param in self.tools or ()),
            tool_choice=choice.name if isinstance(choice, ChosenTool) else choice or ToolChoice.AUTO,
            parallel_tool_calls=self.parallel_tool_calls is not False,
            variables={} if self.reasoning is None else self.reasoning.variables(),
            is_lenient=self._is_lenient,
        )

    def conversation_of(self) -> Conversation:
        """Return the instructions and the input."""
        return Conversation(
            named_results(list(_merged(self._turns()))),
            words=self.words(),
            response_format=self.constraint(),
            options=self.options(),
            is_read=True,
            logprobs=Logprobs(self.top_logprobs or 0) if self.tells else None,
        )

    @property
    def tells(self) -> bool:
        """Whether log probabilities are told."""
        return bool(self.include or self.top_logprobs)

    def _turns(self) -> Iterator[dict[str, object]]:
        if self.instructions:
            yield {"role": "system", "content": self.instructions}
        yield from (item.as_turn() for item in self.input)


def _merged(turns: Iterable[dict[str, object]]) -> Iterator[dict[str, object]]:
    """Join what one answer was of: its thought, what it said, and its calls."""
    last: dict[str, object] | None = None
    for turn in turns:
        if last is not None and _belongs(last, turn):
            calls = [*_listed(last.get("tool_calls")), *_listed(turn.get("tool_calls"))]
            content = turn["content"] or last["content"]
            last = {**last, **turn, "content": content} | ({"tool_calls": calls} if calls else {})
            continue
        if last is not None:
            yield last
        last = turn
    if last is not None:
        yield last


def _belongs(last: Mapping[str, object], turn: Mapping[str, object]) -> bool:
    """Whether a turn is of the same answer as the one before: a call, or what follows a thought."""
    is_open = not last["content"] and "tool_calls" not in last
    return last["role"] == turn["role"] == "assistant" and ("tool_calls" in turn or is_open)


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []
