"""Calls written as a list of Python's: Llama 4 and LFM 2."""

import ast
import json
import re
from collections.abc import Sequence

from rase_models.chat.tool_calls.call_format import Call, CallFormat, MalformedCall
from rase_models.chat.tool_calls.grammar import Json, Symbol, Text
from rase_models.chat.tool_calls.quotes import PythonQuotes
from rase_models.chat.tool_calls.tool import Tool, Tools
from rase_models.chat.tool_calls.typed_arguments import listed, properties_of, required_of

_LONGEST = 1 << 17
_CONSTANTS = {"true": True, "false": False, "null": None}


_NAMES = re.compile(
    r"""("(?:\\.|[^"\\])*(?:"|\\?\Z)|'(?:\\.|[^'\\])*(?:'|\\?\Z))"""
    r"""|(?<![^\s"'()\[\]{},=])[^\s"'()\[\]{},=]+(?=\s*[(=])""",
    re.DOTALL,
)
"""A text, or a name of a function or an argument, which Python may not have as one: `from`, `a-b`."""
_KEYS = re.compile(r"""[^\s"'()\[\]{},=]+""")


def _parse(text: str, tools: Tools) -> Sequence[Call]:
    names: list[str] = []

    def plain(found: "re.Match[str]") -> str:
        if found[1] is None:
            names.append(found[0])
        return found[1] or f"n{len(names) - 1}"

    try:
        tree = ast.parse(_NAMES.sub(plain, text.strip()[:_LONGEST]), mode="eval").body
        calls = tree.elts if isinstance(tree, ast.List) else [tree]
        return [_call(call, names) for call in calls]
    except (SyntaxError, ValueError, LookupError, RecursionError, MemoryError) as error:
        raise MalformedCall(text) from error


def _call(node: ast.expr, names: Sequence[str]) -> Call:
    if not isinstance(node, ast.Call) or node.args or not isinstance(node.func, ast.Name):
        raise ValueError
    given = ((keyword.arg, keyword.value) for keyword in node.keywords)
    arguments = {_named(key, names): _value(value) for key, value in given if key is not None}
    return Call(_named(node.func.id, names), arguments)


def _named(plain: str, names: Sequence[str]) -> str:
    return names[int(plain[1:])]


def _value(node: ast.expr) -> object:
    match node:
        case ast.Name(id=str(name)) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_value(item) for item in items]
        case ast.Dict(keys=keys, values=values):
            return {str(ast.literal_eval(k)): _value(v) for k, v in zip(keys, values, strict=True) if k}
        case _:
            value = ast.literal_eval(node)
            if not isinstance(value, str | int | float | None):
                raise ValueError
            return value


def _write(tool: Tool) -> Sequence[Symbol]:
    """Return what a call looks like; its values are JSON, which `_parse` takes for Python's."""
    arguments = {key: (Text(f"{key}="), Json(schema)) for key, schema in properties_of(tool).items()}
    return Text(f"{tool.name}("), *listed(arguments, required_of(tool), ", "), Text(")")


def _tell(call: Call) -> str:
    arguments = (f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in call.arguments.items())
    return f"{call.name}({', '.join(arguments)})"


LLAMA_PYTHONIC = CallFormat(
    name="llama-pythonic",
    begin="",
    end="",
    parse=_parse,
    write=_write,
    is_apart=True,
    keys=_KEYS,
    is_list=True,
    starts=("[",),
)

LFM2 = CallFormat(
    name="lfm2",
    begin="<|tool_call_start|>",
    end="<|tool_call_end|>",
    parse=_parse,
    write=_write,
    is_apart=True,
    keys=_KEYS,
    is_list=True,
    open_text=PythonQuotes,
    tell=_tell,
)
