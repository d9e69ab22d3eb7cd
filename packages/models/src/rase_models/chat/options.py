"""What a conversation is to be answered with, besides its messages."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import NoneType

from rase_core.arguments import TEXT, Kind, Kinds, check_arguments, instance
from rase_core.errors import InvalidParameter

from rase_models.chat.tool_calls.tool import Tool


class ToolChoice(StrEnum):
    """Whether an answer calls tools."""

    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"


def _are_tools(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(tool, Tool) for tool in value)


_KINDS: Kinds = {
    "tools": Kind("a tuple of Tool", _are_tools),
    "tool_choice": TEXT,
    "parallel_tool_calls": instance("True or False", bool),
    "variables": instance("a mapping", Mapping),
    "is_lenient": instance("True or False", bool),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """Tools, and what the template is told.

    Raises InvalidParameter for a value of another type, two tools of a name, a choice that is not among
    them, and one without tools.

    Attributes:
        tools: what the model may call.
        tool_choice: whether it may, must not, or must; a ToolChoice, or the tool that it must call.
        parallel_tool_calls: whether an answer that must call may call more than once.
        variables: further variables of the template, plain JSON values: `enable_thinking` and the like.
        is_lenient: whether variables that the template does not read are left out instead of refused.
    """

    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice | str = ToolChoice.AUTO
    parallel_tool_calls: bool = True
    variables: Mapping[str, object] = field(default_factory=dict)
    is_lenient: bool = False

    def __post_init__(self) -> None:
        check_arguments(_KINDS, **{name: getattr(self, name) for name in _KINDS})
        names = [tool.name for tool in self.tools]
        for name in names:
            if names.count(name) > 1:
                raise InvalidParameter("tools", name, "each tool once")
        optional = (ToolChoice.AUTO, ToolChoice.NONE)
        known = (*optional, *((ToolChoice.REQUIRED, *names) if names else ()))
        if self.tool_choice not in known:
            raise InvalidParameter("tool_choice", self.tool_choice, f"one of {', '.join(known)}")

    @property
    def active_tools(self) -> tuple[Tool, ...]:
        """The tools that the model is told of."""
        return () if self.tool_choice == ToolChoice.NONE else self.tools

    @property
    def demanded_tools(self) -> tuple[Tool, ...]:
        """The tools one of which must be called; none when nothing must."""
        if self.tool_choice == ToolChoice.REQUIRED:
            return self.tools
        return tuple(tool for tool in self.active_tools if tool.name == self.tool_choice)

    def template_tools(self) -> dict[str, object]:
        """Return the variable of the template that tells of the tools."""
        tools = [tool.as_template_value() for tool in self.active_tools]
        return {"tools": tools} if tools else {}


def check_options(options: object) -> None:
    """Raise InvalidParameter for what is neither ChatOptions nor None."""
    check_arguments(_OPTIONS, options=options)


_OPTIONS: Kinds = {"options": instance("ChatOptions or None", ChatOptions, NoneType)}
