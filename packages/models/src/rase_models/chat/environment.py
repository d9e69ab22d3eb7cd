"""The sandbox that templates run in: Hugging Face's dialect of jinja, with every growth counted."""

import functools
import json
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import islice
from types import GeneratorType
from typing import Any, NoReturn

from jinja2 import Template, nodes, pass_context, pass_eval_context
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.filters import do_join
from jinja2.meta import find_undeclared_variables
from jinja2.parser import Parser
from jinja2.runtime import Context, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from rase_core.errors import InvalidConversation, TemplateError

from rase_models.chat.bounds import bound
from rase_models.chat.budget import budget, size_of, whole_size
from rase_models.chat.guards import (
    COMPARING_TESTS,
    FILTERS,
    METHODS,
    OPERATORS,
    OwnList,
    check_readable,
    formatted,
    method_cost,
)

Function = Callable[..., Any]

_MOST_NODES = (
    8000  # of the parsed template, which take half a second to compile; the largest in use has 1,300
)
_SCOPES = frozenset(
    ("_loop_vars", "_block_vars")
)  # what jinja passes along with every call in a loop or block


class GenerationTag(Extension):
    """`{% generation %}...{% endgeneration %}`, which marks text for training and renders it as it is."""

    tags = {"generation"}  # noqa: RUF012 - the name and type are jinja's

    def parse(self, parser: Parser) -> nodes.Node:
        """Return the body as a scope of its own."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


class TemplateNamespace(Namespace):
    """The object of `namespace()`; it takes no name that begins with an underscore."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        # No parameter is named, so that a template may call its attributes self or args.
        self, *given = args
        attributes = dict(*given, **kwargs)
        for name in attributes:
            _check_name(name)
        Namespace.__init__(self, attributes)

    def __repr__(self) -> str:
        # Without what it holds, which no budget sees.
        return "<Namespace>"

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        Namespace.__setitem__(self, name, value)


def _names_in_order(node: nodes.Node, bound: frozenset[str] = frozenset()) -> Iterator[tuple[str, bool]]:
    """Give the names of a template as they come, and whether each is read; no parameters of macros."""
    if isinstance(node, nodes.Name):
        if node.name not in bound:
            yield node.name, node.ctx == "load"
        return
    if isinstance(node, nodes.Macro | nodes.CallBlock):
        bound |= {argument.name for argument in node.args}
    source = node.iter if isinstance(node, nodes.For) else getattr(node, "node", None)
    for child in sorted(node.iter_child_nodes(), key=lambda child: child is not source):
        yield from _names_in_order(child, bound)


class TemplateEnvironment(ImmutableSandboxedEnvironment):
    """The sandbox. It must only run within `spending(Budget(...))`."""

    intercepted_binops = frozenset(OPERATORS)

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, loopcontrols], finalize=_written
        )
        self.filters = {
            name: _guarded(self.filters[name], FILTERS[name]) for name in FILTERS.keys() & self.filters
        }
        self.filters |= {"tojson": _guarded(_tojson, FILTERS["tojson"]), "join": _join}
        self.tests = {
            name: _guarded(test, whole_size) if name in COMPARING_TESTS else test
            for name, test in self.tests.items()
        }
        self.globals = {
            "range": self.globals["range"],
            "dict": _dict,
            "namespace": TemplateNamespace,
            "raise_exception": _raise_exception,
            "strftime_now": _strftime_now,
        }

    def compile_bounded(self, source: str) -> Template:
        """Compile a template whose loops and values are counted. Raises TemplateError for a huge one."""
        return self.from_string(bound(self._parsed(source), self))

    def variables_of(self, source: str) -> frozenset[str]:
        """Return the names that a template takes from outside: that it reads before it gives them a value."""
        parsed = self._parsed(source)
        is_read_first: dict[str, bool] = {}
        for name, is_read in _names_in_order(parsed):
            is_read_first.setdefault(name, is_read)
        names = find_undeclared_variables(parsed) - self.globals.keys()
        return frozenset(name for name in names if is_read_first.get(name, True))

    def _parsed(self, source: str) -> nodes.Template:
        parsed = self.parse(source)
        if any(True for _ in islice(parsed.find_all(nodes.Node), _MOST_NODES, None)):
            raise TemplateError(f"the chat template has more than {_MOST_NODES} parts")
        return parsed

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Allow only the known methods of plain values, and what the sandbox allows of others."""
        for kind, methods in METHODS.items():
            if isinstance(obj, kind):
                return attr in methods
        return super().is_safe_attribute(obj, attr, value)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Count what an operator makes, then do it."""
        budget().charge(OPERATORS[operator](left, right))
        return super().call_binop(context, operator, left, right)

    def call(self, context: Context, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Count what a call is given and what it returns."""
        owner = getattr(function, "__self__", None)
        if isinstance(owner, str) and function.__name__ == "join" and args:
            args = (list(args[0]), *args[1:])  # a generator could be measured only by using it up
        own = owner is self or isinstance(function, Macro)
        named = (value for name, value in kwargs.items() if name not in _SCOPES)
        budget().charge(0 if own else method_cost(function, (*args, *named)))
        result = super().call(context, function, *args, **kwargs)
        budget().charge(size_of(result))
        return result

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Count a key that has parts, since finding it reads them all."""
        if isinstance(argument, tuple):
            check_readable(argument)
        return super().getitem(obj, argument)

    def wrap_str_format(self, value: Any) -> Function | None:
        """Return the sandbox's own `str.format` with a guard before it."""
        wrapped = super().wrap_str_format(value)
        if wrapped is None:
            return None

        def guarded_format(*args: Any, **kwargs: Any) -> str:
            budget().charge(formatted(value.__self__, *args, *kwargs.values()))
            return str(wrapped(*args, **kwargs))

        return guarded_format

    def step(self, written: int) -> bool:
        """Count one turn of a loop, in which this much of the template's own text may be written."""
        budget().charge(written)
        return True

    def concatenate(self, *values: Any) -> str:
        """Do what `~` does."""
        budget().charge(whole_size(*values))
        return "".join(map(str, values))

    def cut(self, value: Any, start: Any, stop: Any, step: Any) -> Any:
        """Do what a slice does."""
        return value[start:stop:step]

    def own_list(self, items: list[Any]) -> OwnList:
        """Return a list that a template writes as one that it may add to."""
        return OwnList(items)

    def readable(self, value: Any) -> Any:
        """Return a value that is about to be compared or hashed."""
        check_readable(value)
        return value


def _guarded(function: Any, guard: Callable[..., int]) -> Function:
    """Return a filter or test that counts what it is given and what it returns."""
    skipped = 1 if hasattr(function, "jinja_pass_arg") else 0

    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        given = [list(value) if isinstance(value, GeneratorType) else value for value in args]
        budget().charge(guard(*given[skipped:], **kwargs))
        result = function(*given, **kwargs)
        budget().charge(size_of(result))
        return result

    return guarded


@pass_context
def _written(context: Context, value: Any) -> str:
    """Return the text of a value, counting it; asking for the context keeps constants from being folded."""
    budget().charge(whole_size(value))
    return str(value)


@pass_eval_context
def _join(eval_ctx: nodes.EvalContext, value: Any, d: str = "", attribute: str | int | None = None) -> str:
    items = list(value)
    budget().charge(whole_size(items) + len(str(d)) * len(items))
    return str(do_join(eval_ctx, items, d, attribute))


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: Any = None,
    separators: Any = None,
    sort_keys: bool = False,
) -> str:
    # Unlike jinja's own filter this one escapes no HTML, because a prompt is not a page.
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _dict(*args: Any, **kwargs: Any) -> dict[Any, Any]:
    # A function and not the type itself, whose own methods could change the messages.
    return dict(*args, **kwargs)


def _raise_exception(message: object) -> NoReturn:
    raise InvalidConversation("the chat template refuses the conversation: " + str(message))


def _strftime_now(pattern: str) -> str:
    budget().charge(formatted(str(pattern).replace("%", "")))
    return datetime.now().strftime(pattern)


def _check_name(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"a namespace takes no name that begins with an underscore: {name!r}")
