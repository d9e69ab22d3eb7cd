"""What the answers to a conversation are held to: a format, or calls of tools, behind a thought."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from rase_core.constraint import Constraint
from rase_core.errors import UnenforceableFormat
from rase_core.scheduler import GenerationRequest

from rase_models.chat.dialect import chat_dialect
from rase_models.chat.options import ChatOptions
from rase_models.chat.tool_calls import CallGrammar, Tool
from rase_models.chat.tool_calls.harmony import HARMONY
from rase_models.constraints import CompiledFormat, ResponseFormat
from rase_models.constraints.after_marker import AfterMarker
from rase_models.constraints.after_thought import AfterThought
from rase_models.revealing import RevealingStream, silent_ids
from rase_models.session import Session


class ChatRules:
    """The rules of the answers to one prompt of a model.

    An answer that must call tools keeps to their grammar, one that may from the marker of a call on, one with
    a format to that; all may think before, where thoughts have tokens of their own. Markers are text where an
    answer `is_read`.
    """

    def __init__(self, session: Session, options: ChatOptions, prompt: str, *, is_read: bool) -> None:
        self._session, self._options, self._prompt = session, options, prompt
        self._dialect = chat_dialect(session.template.source)
        self._silent = silent_ids(session.tokenizer, self._dialect.markers) if is_read else {}

    def applied(self, request: GenerationRequest, form: ResponseFormat | None) -> GenerationRequest:
        """Return the request with its rules. Raises InvalidParameter, UnenforceableFormat."""
        calls = self._demanded_calls()
        if calls is not None:
            compiled = self._session.formats.compile(calls)
            request = held_to(request, calls, self._session)
            if self._dialect.calls is not HARMONY:  # whose grammar has a thought in it
                request = replace(request, constraints=self._behind_thought(compiled, calls))
        elif form is not None:
            request = held_to(request, form, self._session)
            constraints = self._behind_thought(self._session.formats.compile(form), form)
            request = replace(request, constraints=constraints)
        elif self._options.active_tools:
            request = replace(request, constraints=self._offered_calls())
        return self._revealed(request)

    def _offered_calls(self) -> Callable[[], Constraint] | None:
        """Return the rules of calls that may come; None where nothing can be known of their beginnings.

        What of a schema cannot be enforced is let pass, since no call is demanded.
        """
        grammar = self._grammar(self._options.active_tools)
        if grammar is None:
            return None
        with suppress(UnenforceableFormat):
            return self._rules_of_offer(grammar)
        with suppress(UnenforceableFormat):
            return self._rules_of_offer(replace(grammar, is_lenient=True))
        return None

    def _rules_of_offer(self, grammar: CallGrammar) -> Callable[[], Constraint]:
        form, compile_ = grammar.form, self._session.formats.compile
        opening = grammar.special(form.opening or form.begin)
        if opening is None or form.offer:
            rules = ResponseFormat.lark(grammar.offered())
            return self._behind_thought(compile_(rules), rules)
        whole: dict[int, Callable[[], Constraint]] = {
            opening: compile_(ResponseFormat.lark(grammar.demanded()))
        }
        begin = grammar.special(form.begin)
        if form.opening and begin is not None:
            whole[begin] = compile_(ResponseFormat.lark(grammar.demanded(has_opening=False)))
        return partial(AfterMarker, whole)

    def _grammar(self, tools: Sequence[Tool]) -> CallGrammar | None:
        form = self._dialect.format_of(self._options)
        if form is None or not tools:
            return None
        special = silent_ids(self._session.tokenizer, form.markers)
        return CallGrammar(form, tools, self._options.parallel_tool_calls, special.get)

    def _demanded_calls(self) -> ResponseFormat | None:
        grammar = self._grammar(self._options.demanded_tools)
        return None if grammar is None else ResponseFormat.lark(grammar.demanded())

    def _behind_thought(self, compiled: CompiledFormat, form: ResponseFormat) -> Callable[[], Constraint]:
        is_thinking, end = self._dialect.is_thinking(self._prompt), self._thought_end()
        begin = self._session.tokenizer.token_to_id(self._dialect.tags.begin)
        if is_thinking and not end:
            raise UnenforceableFormat(form.kind, "the prompt begins a thought whose end is no token")
        if not end or (begin is None and not is_thinking):
            return compiled
        text_tokens = self._session.formats.text_tokens
        return lambda: AfterThought(compiled(), end, None if is_thinking else begin, text_tokens)

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


def held_to(request: GenerationRequest, form: ResponseFormat | None, session: Session) -> GenerationRequest:
    """Hold the answers to a format; no space is taken from their beginnings, which the rules know of."""
    if form is None:
        return request
    return replace(
        request,
        constraints=session.formats.compile(form),
        detokenizers=partial(session.tokenizer.detokenizer, continues=True),
    )
