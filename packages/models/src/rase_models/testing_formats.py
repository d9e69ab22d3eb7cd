"""What formats of answers admit, and schemas of kinds, for tests."""

import re
from collections.abc import Iterable

from rase_models.constraints import FormatCompiler, ResponseFormat
from rase_models.constraints.schema.keywords import Schema
from rase_models.tokenizers import Tokenizer

FOREIGN = re.compile(r"lexer|look-?around|target type|EOF|prematurely| \^ |got \(|get_error|compliant")
"""Words of the libraries that find the faults."""

INNER = re.compile(r"\n|<state>|panic|start:|%json|%llguidance|json-schema:|\d \| ")
"""What only those who wrote the grammars that a format becomes can make sense of."""


def admits(compiler: FormatCompiler, tokenizer: Tokenizer, form: ResponseFormat, text: str) -> bool:
    """Tell whether an answer to a format may be this text."""
    rules = compiler.compile(form)()
    for token in tokenizer.encode(text, add_special_tokens=False, parse_special=False):
        if rules.is_complete or not rules.allowed()[token]:
            return False
        rules.accept(token)
    return rules.may_end


def kinds_of(values: Iterable[object]) -> list[Schema]:
    """Return objects of which a property tells the kind."""
    return [{"type": "object", "properties": {"k": {"const": value}}, "required": ["k"]} for value in values]
