"""Special tokens as text, where somebody reads them."""

from collections.abc import Callable, Iterable

from rase_core.answer import Detokenizer

from rase_models.tokenizers import Tokenizer


class RevealingStream:
    """A Detokenizer that writes some special tokens out."""

    def __init__(
        self, stream: Detokenizer, revealed: frozenset[int], names: Callable[[int], str | None]
    ) -> None:
        self._stream, self._revealed, self._names = stream, revealed, names

    def push(self, token: int) -> bytes:
        """Return the bytes of one more token."""
        data = self._stream.push(token)
        if data or token not in self._revealed:
            return data
        return (self._names(token) or "").encode()

    def piece(self, token: int) -> bytes:
        """Return the bytes that a token is spelt with."""
        return self._stream.piece(token)


def silent_ids(tokenizer: Tokenizer, texts: Iterable[str]) -> dict[str, int]:
    """Return the ids of those texts that are tokens which stand for no text."""
    ids = ((text, tokenizer.token_to_id(text)) for text in texts)
    return {text: i for text, i in ids if i is not None and not tokenizer.detokenizer().push(i)}
