"""SentencePiece BPE: `▁` for a space, merges between all other characters, bytes where nothing fits."""

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from rase_core.progress import Progress

from rase_models.tokenizers.gguf_encoder import in_turn
from rase_models.tokenizers.merge_table import MergeTable
from rase_models.tokenizers.plain_merging import PlainMerging
from rase_models.tokenizers.space import SPACE

if TYPE_CHECKING:
    from rase_models.backends.cpu.text_merging import TextMerging


class SentencePieceBpe:
    """The merging of one table, the way of sentencepiece and llama.cpp."""

    def __init__(self, table: MergeTable, *, adds_space: bool) -> None:
        self._table = table
        self._prefix = SPACE if adds_space else ""
        self._compiled: TextMerging | None = None

    def compile(self, progress: Progress | None = None) -> None:
        """Merge by compiled code from now on, where there is a compiler; it gives the same ids, sooner."""
        try:
            from rase_models.backends.cpu.text_merging import TextMerging
        except ImportError:
            return
        self._compiled = TextMerging(self._table, progress)

    def encode(self, parts: Iterable[int | str]) -> list[int]:
        """Return the ids of the parts of a text, of which integers are ids already.

        A space goes before the first and after ids, where the model adds one. Raises UnencodableText for a
        character that neither a token nor byte tokens stand for.
        """
        spaced = list(self._spaced(parts))
        ids = None if self._compiled is None else self._compiled.ids(spaced)
        return in_turn(spaced, self._plain.ids) if ids is None else ids  # which names what has no token

    def _spaced(self, parts: Iterable[int | str]) -> Iterator[int | str]:
        prefix = self._prefix
        for part in parts:
            yield part if isinstance(part, int) else prefix + part.replace(" ", SPACE)
            prefix = self._prefix if isinstance(part, int) else ""

    @cached_property
    def _plain(self) -> PlainMerging:
        return PlainMerging(self._table)
