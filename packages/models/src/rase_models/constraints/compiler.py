"""From a format to the rules of an answer, through llguidance."""

import json
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
from rase_core.constraint import Allowed
from rase_core.errors import ConstraintFailure, UnenforceableFormat
from rase_core.fork_safe import ForkSafeLock

from rase_models.constraints.lark_intersections import check_intersections
from rase_models.constraints.limits import parser_limits
from rase_models.constraints.matcher import FormatMatcher
from rase_models.constraints.reasons import reason_in
from rase_models.constraints.repetitions import excess_of, repetitions
from rase_models.constraints.response_format import JSON_WHITESPACE, FormatKind, ResponseFormat
from rase_models.constraints.schema import Place, SchemaDocument, fault_of, prepared
from rase_models.constraints.schema.keywords import MOST
from rase_models.constraints.token_table import token_table
from rase_models.tokenizers import Tokenizer

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

_KEPT = 64
_TURNS = 64
"""Formats are compiled at the same time, so that a cheap one waits for no dear one, but each only once."""


class CompiledFormat:
    """A format ready for a model; each call makes the rules of one more answer. Thread-safe.

    Answers share what has been found out of the format; where that is too much, it begins anew.
    """

    def __init__(self, make: Callable[[], "LLMatcher"], text_tokens: Allowed) -> None:
        self._make, self._text_tokens = make, text_tokens
        self._lock = ForkSafeLock()
        self._matcher, self._number = make(), 0

    def __call__(self) -> FormatMatcher:
        matcher, number = self._copy()
        return FormatMatcher(matcher, self._text_tokens, _Renewal(self, number))

    def renewed(self, number: int) -> tuple["LLMatcher", int]:
        """Return a matcher that shares nothing with those of a number, nor with earlier ones."""
        with self._lock:
            if number == self._number:
                self._matcher, self._number = self._make(), number + 1
        return self._copy()

    def _copy(self) -> tuple["LLMatcher", int]:
        with self._lock:
            return self._matcher.deep_copy(), self._number


class _Renewal:
    """Makes new matchers for one answer."""

    def __init__(self, compiled: CompiledFormat, number: int) -> None:
        self._compiled, self._number = compiled, number

    def __call__(self) -> "LLMatcher":
        matcher, self._number = self._compiled.renewed(self._number)
        return matcher


class FormatCompiler:
    """Compiles formats for one tokenizer, several at the same time, and keeps the last ones. Thread-safe.

    `most_states` is how many states of a format's texts are told apart; None for llguidance's own limit.
    """

    def __init__(self, tokenizer: Tokenizer, most_states: int | None = None) -> None:
        self._tokenizer = tokenizer
        self._most_states = most_states
        self._lock, self._table_lock = ForkSafeLock(), ForkSafeLock()
        self._turns = [ForkSafeLock() for _ in range(_TURNS)]
        self._compiled: OrderedDict[ResponseFormat, CompiledFormat] = OrderedDict()

    def compile(self, form: ResponseFormat) -> CompiledFormat:
        """Return a format ready for use; UnenforceableFormat says which keyword or place is at fault."""
        found = self._known(form)
        if found is not None:  # which need not wait for another one to be compiled
            return found
        with self._turns[hash(form) % _TURNS]:
            return self._known(form) or self._kept(form, self._compile(form))

    def _known(self, form: ResponseFormat) -> CompiledFormat | None:
        with self._lock:
            found = self._compiled.get(form)
            if found is not None:
                self._compiled.move_to_end(form)
            return found

    def _kept(self, form: ResponseFormat, compiled: CompiledFormat) -> CompiledFormat:
        with self._lock:
            self._compiled[form] = compiled
            while len(self._compiled) > _KEPT:
                self._compiled.popitem(last=False)
            return compiled

    def _compile(self, form: ResponseFormat) -> CompiledFormat:
        from llguidance import LLMatcher

        try:
            grammar = _GRAMMARS[form.kind](form.text)
        except (ValueError, RecursionError) as error:
            raise _fault(form, str(error)) from error
        limits = parser_limits(self._most_states)
        with self._table_lock:  # it is made once
            table = self._table
        make = partial(LLMatcher, table, grammar, log_level=0, limits=limits)
        matcher = make()
        if matcher.is_error():
            raise _fault(form, matcher.get_error())
        compiled = CompiledFormat(make, self.text_tokens)
        try:
            _begin(compiled())
        except ConstraintFailure as error:
            raise _fault(form, error.reason) from error
        return compiled

    @cached_property
    def _table(self) -> "LLTokenizer":
        return token_table(self._tokenizer)

    @cached_property
    def text_tokens(self) -> Allowed:
        """The tokens that do not end an answer, bool [vocab]; not to be changed."""
        tokens = np.ones(self._tokenizer.vocab_size, np.bool_)
        tokens[[end for end in self._tokenizer.eos_token_ids if end < tokens.size]] = False
        return tokens


def _begin(rules: FormatMatcher) -> None:
    """Follow what must come first; raises ConstraintFailure where that is a text too long to be followed."""
    for token in rules.forced()[:2]:
        rules.accept(token)


def _fault(form: ResponseFormat, text: str) -> UnenforceableFormat:
    """Return what is wrong with a format, by what llguidance says."""
    if form.kind is FormatKind.JSON_SCHEMA:
        found = fault_of(SchemaDocument(json.loads(form.text)))
        if found is not None:
            return found
    is_own_text = form.kind is FormatKind.GRAMMAR and not is_gbnf(form.text)
    return UnenforceableFormat(form.kind, reason_in(text, is_own_text=is_own_text))


def _json_schema(text: str) -> str:
    from llguidance import LLMatcher

    document = SchemaDocument(json.loads(text))
    schema = prepared(document, document.root, Place())
    return LLMatcher.grammar_from_json_schema(
        json.dumps(schema), overrides={"whitespace_pattern": JSON_WHITESPACE}
    )


def _regex(text: str) -> str:
    from llguidance import LLMatcher

    _check_repetitions(FormatKind.REGEX, text)
    return LLMatcher.grammar_from_regex(text)


def _choice(text: str) -> str:
    from llguidance import grammar_from

    return grammar_from("choice", text)


_RULE = re.compile(r"^[ \t]*[?!]*[A-Za-z_][^\n\"/]*:", re.MULTILINE)
_MOST_RULES = 1000
"""Of a client's grammar: llguidance goes from rule to rule on the stack, whose end is that of the process."""


def _grammar(text: str) -> str:
    from llguidance import grammar_from

    if sum(1 for _ in _RULE.finditer(text)) > _MOST_RULES:
        raise UnenforceableFormat(FormatKind.GRAMMAR, f"it has more than {_MOST_RULES} rules")
    _check_repetitions(FormatKind.GRAMMAR, text)
    _check_numbers(text)
    if not is_gbnf(text):
        check_intersections(text)
    return grammar_from("grammar", text)


_NEGATIVE = re.compile(r"-\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)


def _check_numbers(text: str) -> None:
    """Refuse schemas within a grammar that have numbers at which llguidance ends the process."""
    if "%json" in text and any(float(found[0]) <= -(2.0**63) for found in _NEGATIVE.finditer(text)):
        why = f"a schema within it has a number below {-MOST + 1}"
        raise UnenforceableFormat(FormatKind.GRAMMAR, why)


def _check_repetitions(kind: FormatKind, text: str) -> None:
    why = excess_of(repetitions(text))
    if why is not None:
        raise UnenforceableFormat(kind, why)


def is_gbnf(text: str) -> bool:
    """Whether a grammar is not in Lark, which llguidance tells by the same sign."""
    return "::=" in text


def _lark(text: str) -> str:
    from llguidance import LLMatcher

    return LLMatcher.grammar_from_lark(text)


_GRAMMARS: Mapping[FormatKind, Callable[[str], str]] = {
    FormatKind.JSON_SCHEMA: _json_schema,
    FormatKind.REGEX: _regex,
    FormatKind.CHOICE: _choice,
    FormatKind.GRAMMAR: _grammar,
    FormatKind.LARK: _lark,
}
