"""Tools that a model may call, its calls, and what it is told besides, in OpenAI's words."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field
from rase_core.json_text import NotJson, parse_json, unique_keys, whole_text
from rase_models.chat.options import ChatOptions, ToolChoice
from rase_models.chat.tool_calls import Tool
from rase_models.chat.variables import EFFORT, THINKS

from rase_api.errors import InvalidValue
from rase_api.faults import Names
from rase_api.fields import Ignored, Strict
from rase_api.parameters import Body

MOST_TOOLS = 512


class FunctionParam(Strict):
    """A function by name; the schema of its arguments is always enforced where a call is, `strict` or not."""

    name: str
    description: str | None = None
    parameters: dict[str, object] | None = None
    strict: bool | None = None

    def tool(self) -> Tool:
        """Return the tool."""
        return Tool(self.name, self.description or "", self.parameters or {})


class ToolParam(Strict):
    """A tool."""

    type: Literal["function"]
    function: FunctionParam
    cache_control: Ignored = None


class FunctionName(Strict):
    """A function by name alone."""

    name: str


class NamedTool(Strict):
    """The tool that must be called."""

    type: Literal["function"]
    function: FunctionName


class WrittenFunction(Strict):
    """What an earlier answer called, with arguments in JSON."""

    name: str
    arguments: str


class WrittenCall(Strict):
    """A call in an earlier answer."""

    id: str | None = None
    type: Literal["function"] | None = None
    function: WrittenFunction
    index: int | None = None

    def as_turn(self, path: str) -> dict[str, object]:
        """Return the call as templates know it, its arguments an object."""
        arguments = parsed_arguments(self.function.arguments, f"{path}.function.arguments")
        function = {"name": self.function.name, "arguments": arguments}
        return {"id": self.id or "", "type": "function", "function": function}


class ToolingRequest(Body):
    """What a chat says about tools and thought."""

    tools: Annotated[list[ToolParam], Field(max_length=MOST_TOOLS)] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = None
    parallel_tool_calls: bool | None = None
    chat_template_kwargs: dict[str, object] | None = None
    enable_thinking: bool | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None

    def options(self) -> ChatOptions:
        """Return what a conversation is answered with. Raises InvalidParameter."""
        choice = self.tool_choice
        return ChatOptions(
            tools=tuple(param.function.tool() for param in self.tools or ()),
            tool_choice=choice.function.name if isinstance(choice, NamedTool) else choice or ToolChoice.AUTO,
            parallel_tool_calls=self.parallel_tool_calls is not False,
            variables=self._variables(),
            is_lenient=self._is_lenient,
        )

    @property
    def variable_names(self) -> Names:
        """Variable of the template -> the name by which this request gave it."""
        given = {name: f"chat_template_kwargs.{name}" for name in self.chat_template_kwargs or ()}
        own = {name: name for name in (THINKS, EFFORT) if getattr(self, name) is not None}
        return {f"variables.{name}": path for name, path in (given | own).items()}

    def _variables(self) -> Mapping[str, object]:
        given = dict(self.chat_template_kwargs or {})
        for name in RESERVED & given.keys():
            path = f"chat_template_kwargs.{name}"
            raise InvalidValue(f"'{path}' is not a variable of templates alone.", path)
        for name in (THINKS, EFFORT):
            value = getattr(self, name)
            if value is not None and given.setdefault(name, value) != value:
                path = f"chat_template_kwargs.{name}"
                raise InvalidValue(f"'{path}' and '{name}' mean the same, but have different values.", name)
        return given


VARIABLES = tuple(f"variables.{name}" for name in (THINKS, EFFORT))
"""What errors call the variables of thinking; each API has its own words for them."""
RESERVED = frozenset({"messages", "tools", "add_generation_prompt", "continue_final_message"})


def parsed_arguments(text: str, path: str) -> dict[str, object]:
    """Return the arguments of a call in the history; raises InvalidValue naming them."""
    try:
        value = whole_text(parse_json(text, unique_keys)) if text.strip() else {}
    except NotJson as error:
        raise InvalidValue(f"Invalid value for '{path}': not valid JSON ({error}).", path) from error
    if not isinstance(value, dict):
        raise InvalidValue(f"Invalid value for '{path}': expected a JSON object.", path)
    return value


def named_results(turns: list[dict[str, object]]) -> list[dict[str, object]]:
    """Give the results of calls the names of what was called, which some templates want."""
    names: dict[object, object] = {}
    for turn in turns:
        for call in turn.get("tool_calls", ()):  # type: ignore[attr-defined]
            names[call["id"]] = call["function"]["name"]
        name = names.get(turn.get("tool_call_id"))
        if name is not None:
            turn.setdefault("name", name)
    return turns
