"""A tokenizer's vocabulary as llguidance wants it."""

from typing import TYPE_CHECKING

from rase_models.tokenizers import Tokenizer

if TYPE_CHECKING:
    from llguidance import LLTokenizer


class TokenTable:
    """The bytes of every token; the names and the presence of the attributes are llguidance's.

    A token without text of its own, and one that ends an answer, is special: no rule about text allows it.
    """

    is_tokenizer_wrapper = True

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.tokens: list[bytes] = []
        self.special_token_ids: list[int] = []
        for token in range(tokenizer.vocab_size):
            self._add(token)
        self.bos_token_id = tokenizer.bos_token_id
        self.eos_token_id = min(tokenizer.eos_token_ids, default=0)

    def __call__(self, text: str) -> list[int]:
        """Return the ids of a text."""
        return self._tokenizer.encode(text, add_special_tokens=False, parse_special=False)

    def _add(self, token: int) -> None:
        data = self._tokenizer.detokenizer(continues=True).push(token)
        if not data or token in self._tokenizer.eos_token_ids:
            self.special_token_ids.append(token)
            data = (self._tokenizer.id_to_token(token) or f"[{token}]").encode("utf-8", "surrogateescape")
        self.tokens.append(data)


def token_table(tokenizer: Tokenizer) -> "LLTokenizer":
    """Return the table of a tokenizer; takes some 10 microseconds for each token."""
    from llguidance import LLTokenizer

    table = TokenTable(tokenizer)
    ends = sorted(tokenizer.eos_token_ids) or [table.eos_token_id]
    return LLTokenizer(table, n_vocab=tokenizer.vocab_size, eos_token=ends)  # type: ignore[arg-type]
