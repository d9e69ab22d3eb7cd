"""The tokenizer that the rest of rase sees, whatever it was built from."""

import re
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from rase_core.errors import InvalidParameter, UnencodableText
from rase_core.fork_safe import ForkSafeLock
from rase_core.progress import Progress

from rase_models.tokenizers.least_tokens import LeastTokens, Losses
from rase_models.tokenizers.prompt_text import PromptText
from rase_models.tokenizers.special_tokens import SpecialTokens
from rase_models.tokenizers.turn_markers import is_turn_marker

Compile = Callable[[Progress | None], None]

LONG = 1 << 16
"""Characters of a text that is worth some care: so many are tokenised in milliseconds."""

_SURROGATE = re.compile("[\ud800-\udfff]")


class Encoder(Protocol):
    """Text to ids."""

    def encode(self, text: str, *, add_special_tokens: bool, parse_special: bool) -> list[int]:
        """Return the ids of a text that UTF-8 can hold."""
        ...

    def encode_marked(self, text: str, mark: str) -> list[int]:
        """Return the ids of a prompt, in which control tokens with a mark within them are text without it."""
        ...


class Pieces(Protocol):
    """Ids to texts and bytes."""

    @property
    def size(self) -> int:
        """The number of tokens."""
        ...

    def id_of(self, token: str) -> int | None:
        """Return the id of a token, spelt as in the vocabulary."""
        ...

    def token_of(self, token: int) -> str | None:
        """Return the spelling of an id in the vocabulary; None when there is no such id."""
        ...

    def bytes_of(self, token: int) -> bytes:
        """Return the bytes that an id stands for in text; none for an id that does not exist."""
        ...


@dataclass(frozen=True, slots=True)
class SpecialRules:
    """Which tokens are special, and what that means.

    Attributes:
        bos, eos: ids, None where there is none; `ends` are all ids that end an answer.
        hidden: ids that are no part of the text (control tokens and the unknown token).
        markers: ids after which the encoder starts a text anew (the special and user-defined tokens).
        add_bos: whether `encode` begins with BOS.
        adds_space: whether the encoder puts a space before a text, so that decoding takes it away.
    """

    bos: int | None
    eos: int | None
    ends: frozenset[int]
    hidden: frozenset[int]
    markers: frozenset[int]
    add_bos: bool
    adds_space: bool


class TokenStream:
    """Bytes of one token after another, with no look-ahead and no re-decoding."""

    def __init__(
        self, pieces: Pieces, rules: SpecialRules, *, skip_special_tokens: bool, strip: bool
    ) -> None:
        self._pieces = pieces
        self._rules = rules
        self._skipped = rules.hidden if skip_special_tokens else frozenset[int]()
        self._strip = strip and rules.adds_space

    def push(self, token: int) -> bytes:
        """Return the bytes of one more token; they may end within a character."""
        if token in self._rules.markers:
            self._strip = self._rules.adds_space
            return b"" if token in self._skipped else self._pieces.bytes_of(token)
        data = self._pieces.bytes_of(token)
        if self._strip and data:
            self._strip = False
            return data.removeprefix(b" ")
        return data

    def piece(self, token: int) -> bytes:
        """Return the bytes that a token is spelt with, also one that is no part of the text."""
        return self._pieces.bytes_of(token)


class Tokenizer:
    """Text to token ids and back. It holds no state between calls and may be used from many threads."""

    def __init__(
        self,
        encoder: Encoder,
        pieces: Pieces,
        rules: SpecialRules,
        losses: Losses | None = None,
        narrow: "Callable[[int], Tokenizer] | None" = None,
        compile: Compile | None = None,
    ) -> None:
        """`losses` is None where a text may be much longer than what its tokens stand for.

        `narrow` does the work of `narrowed`; None where no token can be left out. `compile` is None where
        the work is done by a library.
        """
        self._encoder = encoder
        self._pieces = pieces
        self._rules = rules
        self._losses = losses
        self._narrow = narrow
        self._compile = compile
        self._turn = ForkSafeLock()

    def encode(self, text: str, add_special_tokens: bool = True, parse_special: bool = True) -> list[int]:
        """Return the ids of a text.

        `add_special_tokens` adds BOS and EOS where the model wants them, BOS only to a text that does not
        begin with it; `parse_special` makes the spelling of a control token that token, otherwise it is text
        like any other. Raises InvalidParameter for what is no text, and UnencodableText for a lone surrogate,
        which UTF-8 cannot hold, and when no token stands for a part of the text, unless the vocabulary has an
        unknown token for it. Long texts wait for each other, since the memory that they take is large.
        """
        _check_text(text)
        with self._turn_of(text):
            ids = self._encoder.encode(
                text, add_special_tokens=add_special_tokens, parse_special=parse_special
            )
        return self._with_one_bos(ids) if add_special_tokens and self.add_bos else ids

    def encode_prompt(self, text: str) -> list[int]:
        """Return the ids of a rendered conversation, without EOS.

        BOS begins them once, where the model wants it or the text begins with it. Control tokens that a
        PromptText marks are text. Raises UnencodableText.
        """
        ids = self._marked(text) if isinstance(text, PromptText) else self.encode(text, False)
        bos = self._rules.bos
        return self._with_one_bos([bos, *ids] if bos is not None and self.add_bos else ids)

    def _marked(self, text: PromptText) -> list[int]:
        _check_text(text)
        with self._turn_of(text):
            return self._encoder.encode_marked(text.marked, text.mark)

    @cached_property
    def controls(self) -> SpecialTokens:
        """The spellings that a prompt has for control tokens, and for user-defined ones that divide turns.

        Those of one character are as good as text.
        """
        rules = self._rules
        found = ((self.id_to_token(token), token) for token in rules.hidden | rules.markers)
        spellings = ((text, token) for text, token in found if text is not None and len(text) > 1)
        return SpecialTokens(
            {text: token for text, token in spellings if token in rules.hidden or is_turn_marker(text)}
        )

    def least_tokens(self, text: str) -> int:
        """Return a number of tokens that a text has at least, which takes much less time than to tokenise it.

        It is 0 where nothing is known. Raises what `encode` raises for any vocabulary.
        """
        _check_text(text)
        return 0 if self._least is None else self._least.of(text)

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = True) -> str:
        """Return the text of ids, with U+FFFD for bytes that are not UTF-8; an unknown id has no text."""
        stream = self.detokenizer(skip_special_tokens)
        return b"".join(map(stream.push, ids)).decode("utf-8", "replace")

    def piece(self, token: int) -> bytes:
        """Return the bytes that a token is spelt with, its space too; they may be a part of a character."""
        return self._pieces.bytes_of(token)

    def detokenizer(self, skip_special_tokens: bool = True, *, continues: bool = False) -> TokenStream:
        """Return a stream that gives the bytes of each token as it comes.

        A tokenizer that puts a space before a text has it taken away again, unless the stream `continues` a
        text whose beginning was decoded elsewhere (a prompt), where that space is one between words.
        """
        return TokenStream(
            self._pieces, self._rules, skip_special_tokens=skip_special_tokens, strip=not continues
        )

    def narrowed(self, vocab_size: int) -> "Tokenizer":
        """Return this tokenizer without the tokens of `vocab_size` and above that were added to its model.

        Where its model itself has such tokens, all stay.
        """
        if self._narrow is None or self.vocab_size <= vocab_size:
            return self
        return self._narrow(vocab_size)

    def compile(self, progress: Progress | None = None) -> None:
        """Let compiled code do what is done in Python, where there is a compiler; the ids stay the same.

        It is worth its time (a moment, and some seconds on the first time on a machine, of which `progress`
        hears) for who encodes more than a few texts.
        """
        if self._compile is not None:
            self._compile(progress)

    def _turn_of(self, text: str) -> AbstractContextManager[object]:
        return nullcontext() if len(text) <= LONG else self._turn

    @cached_property
    def _least(self) -> LeastTokens | None:
        if self._losses is None:
            return None
        return LeastTokens(self.vocab_size, self._pieces.bytes_of, self._losses)

    def _with_one_bos(self, ids: list[int]) -> list[int]:
        """Return ids that begin with BOS at most once."""
        bos = self._rules.bos
        written = next((i for i, token in enumerate(ids) if token != bos), len(ids))
        return ids[written - 1 :] if written > 1 else ids

    def token_to_id(self, token: str) -> int | None:
        """Return the id of a token as the vocabulary spells it, or None."""
        return self._pieces.id_of(token)

    def id_to_token(self, token: int) -> str | None:
        """Return the vocabulary's spelling of an id, or None."""
        return self._pieces.token_of(token)

    @property
    def vocab_size(self) -> int:
        """The number of tokens."""
        return self._pieces.size

    @property
    def bos_token_id(self) -> int | None:
        """The token that begins a text, if there is one."""
        return self._rules.bos

    @property
    def eos_token_id(self) -> int | None:
        """The token that the model calls its end of text, if there is one."""
        return self._rules.eos

    @property
    def eos_token_ids(self) -> frozenset[int]:
        """All tokens that end an answer."""
        return self._rules.ends

    @property
    def add_bos(self) -> bool:
        """Whether `encode` begins with BOS."""
        return self._rules.add_bos


def _check_text(text: object) -> None:
    """Raise InvalidParameter for what is no text, UnencodableText for a lone surrogate."""
    if not isinstance(text, str):
        raise InvalidParameter("text", text, "a string")
    if not text.isascii() and (lost := _SURROGATE.search(text)):
        raise UnencodableText(f"the lone surrogate {lost[0]!r}")
