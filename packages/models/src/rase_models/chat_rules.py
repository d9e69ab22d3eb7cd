"""What the answers to a conversation are held to: a format, or calls of tools, behind a thought."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from time import monotonic

from rase_core.constraint import Constraint
from rase_core.errors import UnenforceableFormat
from rase_core.scheduler import GenerationRequest

from rase_models.chat.dialect import chat_dialect
from rase_models.chat.options import ChatOptions
from rase_models.chat.reasoning import Held
from rase_models.chat.tool_calls import CallGrammar, Tool
from rase_models.chat.tool_calls.harmony import HARMONY
from rase_models.chat.tool_calls.typed_arguments import unsaid
from rase_models.chat.tool_calls.writable import doubtful_texts, refuse_unwritable
from rase_models.constraints import FormatKind, ResponseFormat
from rase_models.constraints.after_marker import AfterMarker
from rase_models.constraints.after_thought import AfterThought
from rase_models.constraints.either import Either, InOrder
from rase_models.constraints.reasons import UNSATISFIABLE
from rase_models.constraints.response_format import TOOLS
from rase_models.constraints.schema import Budget, SchemaDocument, fault_of, prepared_once
from rase_models.revealing import RevealingStream, silent_ids
from rase_models.session import Session

MakeRules = Callable[[], Constraint]

_MOST_SECONDS = 0.5


class ChatRules:
    """The rules of the answers to one prompt of a model.

    An answer that must call tools keeps to their grammar, one that may from the marker of a call on, one with
    a format to that; all may think before, where thoughts have tokens of their own. Markers are text where an
    answer `is_read`.
    """

    def __init__(
        self, session: Session, options: ChatOptions, prompt: str, continued: str = "", *, is_read: bool
    ) -> None:
        self._session, self._options = session, options
        self._dialect = chat_dialect(session.template.source)
        self._is_thinking = self._dialect.is_thinking(prompt, continued)
        self._silent = silent_ids(session.tokenizer, self._dialect.markers) if is_read else {}

    def applied(self, request: GenerationRequest, form: ResponseFormat | None) -> GenerationRequest:
        """Return the request with its rules; with a format and tools that may be called they follow either.

        Raises InvalidParameter, UnenforceableFormat.
        """
        rules = self._rules(form)
        if rules is None:
            return self._revealed(request)
        request = request if self.held(form) is None else without_spaces_taken(request, self._session)
        return self._revealed(replace(request, constraints=rules))

    def held(self, form: ResponseFormat | None) -> Held | None:
        """Return what is to be known to read answers that are held to a format or to calls; else None."""
        if form is None and not self._options.demanded_tools:
            return None
        return Held(may_think=bool(self._thought_end()) and self._thought_begin() is not None)

    def _rules(self, form: ResponseFormat | None) -> MakeRules | None:
        demanded = self._grammar(self._options.demanded_tools)
        if demanded is not None:
            return self._demanded_calls(demanded)
        offered = self._grammar(self._options.active_tools)
        if offered is not None:
            _refuse_senseless(offered.tools)
        if form is not None:
            return self._formatted(form, offered)
        return None if offered is None else self._offered_calls(offered)

    def _demanded_calls(self, grammar: CallGrammar) -> MakeRules:
        if grammar.form.is_apart:
            _refuse_unsaid(grammar.tools)
        calls = self._compiled_calls(grammar)
        self._refuse_unwritable_patterns(grammar)
        if grammar.form is HARMONY:  # whose grammar has a thought in it
            return calls
        choice = str(self._options.tool_choice)
        return self._behind_thought(calls, TOOLS, f"tool_choice {choice!r} demands a call, and ")

    def _refuse_unwritable_patterns(self, grammar: CallGrammar) -> None:
        """Raise UnenforceableFormat for a pattern whose texts end too soon, as far as that is soon found."""
        until = monotonic() + _MOST_SECONDS
        for what, text in doubtful_texts(grammar.form, grammar.tools):
            try:
                self._session.formats.compile(ResponseFormat.lark(text))
            except UnenforceableFormat as error:
                if error.reason != UNSATISFIABLE:
                    raise
                why = "no text of it can be written, in the calls that the model writes"
                raise UnenforceableFormat(TOOLS, f"{what}: {why}") from error
            if monotonic() > until:
                break

    def _formatted(self, form: ResponseFormat, offered: CallGrammar | None) -> MakeRules:
        said: MakeRules = self._session.formats.compile(form)
        if offered is None:
            return self._behind_thought(said, form.kind)
        calls = self._strict_or_lenient_calls(offered)
        if not offered.form.prelude:
            return self._behind_thought(lambda: Either((said(), calls())), form.kind)
        prelude = self._session.formats.compile(ResponseFormat.lark(offered.prelude()))
        return lambda: Either((InOrder(prelude(), said()), calls()))

    def _strict_or_lenient_calls(self, grammar: CallGrammar) -> MakeRules:
        with suppress(UnenforceableFormat):
            return self._compiled_calls(grammar)
        return self._compiled_calls(replace(grammar, is_lenient=True))

    def _compiled_calls(self, grammar: CallGrammar) -> MakeRules:
        """Return the rules of calls. Raises UnenforceableFormat with the tool and what is wrong with it."""
        try:
            return self._session.formats.compile(ResponseFormat.lark(grammar.demanded()))
        except UnenforceableFormat as error:
            raise _fault_of(grammar.tools, error) from error

    def _offered_calls(self, grammar: CallGrammar) -> MakeRules | None:
        """Return the rules of calls that may come; None where nothing can be known of their beginnings.

        What of a schema cannot be enforced is let pass, since no call is demanded.
        """
        with suppress(UnenforceableFormat):
            return self._rules_of_offer(grammar)
        with suppress(UnenforceableFormat):
            return self._rules_of_offer(replace(grammar, is_lenient=True))
        return None

    def _rules_of_offer(self, grammar: CallGrammar) -> MakeRules:
        form, compile_ = grammar.form, self._session.formats.compile
        opening = grammar.special(form.opening or form.begin)
        if opening is None or form.offer:
            return self._behind_thought(compile_(ResponseFormat.lark(grammar.offered())), FormatKind.LARK)
        whole: dict[int, MakeRules] = {opening: compile_(ResponseFormat.lark(grammar.demanded()))}
        begin = grammar.special(form.begin)
        if form.opening and begin is not None:
            whole[begin] = compile_(ResponseFormat.lark(grammar.demanded(has_opening=False)))
        return partial(AfterMarker, whole)

    def _grammar(self, tools: Sequence[Tool]) -> CallGrammar | None:
        form = self._dialect.format_of(self._options)
        if form is None or not tools:
            return None
        refuse_unwritable(form, tools)
        special = silent_ids(self._session.tokenizer, form.markers)
        return CallGrammar(form, tools, self._options.parallel_tool_calls, special.get)

    def _behind_thought(self, rules: MakeRules, kind: str, demand: str = "") -> MakeRules:
        is_thinking, begin, end = self._is_thinking, self._thought_begin(), self._thought_end()
        if is_thinking and not end:
            raise UnenforceableFormat(kind, f"{demand}the prompt begins a thought whose end is no token")
        if not end or (begin is None and not is_thinking):
            return rules
        text_tokens = self._session.formats.text_tokens
        return lambda: AfterThought(rules(), end, None if is_thinking else begin, text_tokens)

    def _thought_begin(self) -> int | None:
        return self._session.tokenizer.token_to_id(self._dialect.tags.begin)

    def _thought_end(self) -> tuple[int, ...]:
        """Return the tokens that end a thought; none where it takes more than one to write a tag."""
        tokenizer, text = self._session.tokenizer, self._dialect.thought_end
        if self._dialect.calls is HARMONY:
            return tuple(tokenizer.encode(text, add_special_tokens=False))
        token = tokenizer.token_to_id(text)
        return () if token is None else (token,)

    def _revealed(self, request: GenerationRequest) -> GenerationRequest:
        """Write the special tokens out that a reader must see."""
        inner, revealed = request.detokenizers, frozenset(self._silent.values())
        if inner is None or not revealed:
            return request
        names = self._session.tokenizer.id_to_token
        return replace(request, detokenizers=lambda: RevealingStream(inner(), revealed, names))


def _refuse_unsaid(tools: Sequence[Tool]) -> None:
    """Raise UnenforceableFormat for a schema that says more than what each argument is."""
    for tool in tools:
        keyword = unsaid(tool)
        if keyword is not None:
            why = f"{keyword!r} at #: the model writes arguments one by one"
            raise UnenforceableFormat(TOOLS, f"{tool.name}: {why}")


def _refuse_senseless(tools: Sequence[Tool]) -> None:
    """Raise UnenforceableFormat for a schema that makes no sense, which is more than one too strict."""
    budget = Budget()
    for tool in tools:
        try:
            prepared_once(tool.schema, is_lenient=True, budget=budget)
        except UnenforceableFormat as error:
            raise UnenforceableFormat(TOOLS, f"{tool.name}: {error.reason}") from error


def _fault_of(tools: Sequence[Tool], error: UnenforceableFormat) -> UnenforceableFormat:
    """Return what is wrong with the first tool that anything is wrong with, as far as that is soon found."""
    until = monotonic() + _MOST_SECONDS
    for tool in tools:
        if monotonic() > until:
            break
        found = fault_of(SchemaDocument(tool.schema))
        if found is not None:
            return UnenforceableFormat(TOOLS, f"{tool.name}: {found.reason}")
    return UnenforceableFormat(TOOLS, error.reason)


def held_to(request: GenerationRequest, form: ResponseFormat | None, session: Session) -> GenerationRequest:
    """Hold the answers to a format."""
    if form is None:
        return request
    return replace(without_spaces_taken(request, session), constraints=session.formats.compile(form))


def without_spaces_taken(request: GenerationRequest, session: Session) -> GenerationRequest:
    """Take no space from the beginnings of answers, which their rules know of."""
    return replace(request, detokenizers=partial(session.tokenizer.detokenizer, continues=True))
