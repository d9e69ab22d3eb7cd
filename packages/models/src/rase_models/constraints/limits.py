"""How much llguidance may take for a grammar."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llguidance import LLParserLimits

_MOST_FUEL = 250_000
"""What taking a grammar's texts apart may cost, which ends hostile ones within half a second."""

_MOST_WAYS = 20_000
"""How many ways to go on an answer may have at one place; llguidance's own limit is a tenth of it."""


def parser_limits(most_states: int | None = None) -> "LLParserLimits":
    """Return the limits; `most_states` of a format's texts are told apart, None for its own limit."""
    from llguidance import LLParserLimits

    return LLParserLimits(
        verbose_errors=False,
        initial_lexer_fuel=_MOST_FUEL,
        max_lexer_states=most_states,
        max_items_in_row=_MOST_WAYS,
    )
