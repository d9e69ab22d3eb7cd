"""Intersections (`&`) in a grammar in Lark, and whether they can be looked at."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from rase_core.errors import UnenforceableFormat

from rase_models.constraints.branching import (
    ONE_BRANCH,
    Branches,
    branches_of,
    excess_branches,
    product_of,
    sum_of,
)
from rase_models.constraints.reasons import TOO_LARGE
from rase_models.constraints.schema import Place, SchemaDocument, prepared

_TOKEN = re.compile(
    r"(?P<comment>(?:\#|//)[^\n]*)"
    r'|(?P<text>"(?:\\.|[^"\\\n])*"i?)'
    r"|/(?P<regex>(?:\\.|[^/\\])+)/(?P<flags>[imslux]*)"
    r"|(?P<json>%json\s*(?=\{))"
    r"|(?P<substring>%regex)"
    r"|(?P<newline>\n)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_-]*)"
    r"|(?P<other>::|.)",
    re.DOTALL,
)
_JSON = re.compile(r"%json\s*(?=\{)")
_SUBSTRING = [16 * count for count in ONE_BRANCH]


@dataclass
class _Part:
    """What a rule refers to or spells out: a name, or the branches of a text or expression."""

    name: str = ""
    branches: Branches | None = None


@dataclass
class _Rule:
    """The members of the intersections of a rule, each with its parts; one where it has none."""

    name: str
    members: list[list[_Part]]


def check_intersections(text: str) -> None:
    """Refuse a grammar with an intersection that goes on in too many ways at once."""
    if "%json" in text:
        _check_schemas(text)
    if "&" not in text:
        return
    rules = {rule.name: rule for rule in _rules(text)}
    looks = _Looks(rules)
    try:
        for name in rules:
            looks.branches(name)
    except RecursionError as error:
        raise UnenforceableFormat("grammar", "its rules refer to each other too deeply") from error


def _check_schemas(text: str) -> None:
    """Refuse a schema within a grammar whose patterns may have too many possibilities together."""
    for found in _JSON.finditer(text):
        with suppress(ValueError, RecursionError):  # which llguidance will tell of
            schema = json.JSONDecoder().raw_decode(text, found.end())[0]
            try:
                prepared(SchemaDocument(schema), schema, Place(), is_lenient=True)
            except UnenforceableFormat as error:
                raise UnenforceableFormat("grammar", f"a schema within it: {error.reason}") from None


class _Looks:
    def __init__(self, rules: Mapping[str, _Rule]) -> None:
        self._rules = rules
        self._known: dict[str, Branches] = {}

    def branches(self, name: str) -> Branches:
        """Return the branches of a rule; raises UnenforceableFormat for one that has too many."""
        if name not in self._known:
            self._known[name] = ONE_BRANCH  # for one within itself, which no intersection may have
            if name in self._rules:
                self._known[name] = self._of(self._rules[name])
        return self._known[name]

    def _of(self, rule: _Rule) -> Branches:
        members = [sum_of(map(self._part, member)) for member in rule.members]
        if len(members) > 1 and excess_branches(members):
            raise UnenforceableFormat("grammar", f"the intersection (&) in {rule.name}: {TOO_LARGE}")
        return product_of(members)

    def _part(self, part: _Part) -> Branches:
        return self.branches(part.name) if part.branches is None else part.branches


def _rules(text: str) -> Iterator[_Rule]:
    rule = _Rule("", [[]])
    for line in _lines(text):
        colon = next((i for i, found in enumerate(line) if found["other"] == ":"), None)
        names = [found["name"] for found in line[:colon] if found["name"]]
        if colon is not None and names:
            yield rule
            rule, line = _Rule(names[0], [[]]), line[colon + 1 :]
        for found in line:
            if found["other"] == "&":
                rule.members.append([])
            elif (part := _part(found)) is not None:
                rule.members[-1].append(part)
    yield rule


def _lines(text: str) -> Iterator[Sequence["re.Match[str]"]]:
    """Yield the tokens of each line, of which one begins with a rule's name."""
    line: list[re.Match[str]] = []
    at = 0
    while found := _TOKEN.match(text, at):
        at = found.end()
        if found.lastgroup == "newline":
            yield line
            line = []
        elif found.lastgroup == "json":
            at = _json_end(text, at)
        else:
            line.append(found)
    yield line


def _json_end(text: str, at: int) -> int:
    try:
        return json.JSONDecoder().raw_decode(text, at)[1]
    except (ValueError, RecursionError):
        return at


def _part(found: "re.Match[str]") -> _Part | None:
    if found["name"]:
        return _Part(found["name"])
    if found["regex"]:
        return _Part(branches=branches_of(found["regex"], is_caseless="i" in found["flags"]))
    if found["text"]:
        spelt = re.sub(r"([^\w\s])", r"\\\1", found["text"].strip('i"'))
        return _Part(branches=branches_of(spelt, is_caseless=found["text"].endswith("i")))
    return _Part(branches=_SUBSTRING) if found["substring"] else None
