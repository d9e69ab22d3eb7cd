"""BPE by the `tokenizers` library, from the vocabulary and the merges of a GGUF.

The vocabulary, the special tokens and the way back are ours.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rase_core.errors import TokenizerError

from rase_models.tokenizers.library import LibraryFault, library_faults
from rase_models.tokenizers.pieces import is_text, spellable
from rase_models.tokenizers.pre_tokenizers import PreTokenizer
from rase_models.tokenizers.vocabulary import Vocabulary

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Library
    from tokenizers.pre_tokenizers import PreTokenizer as Step

MERGES_KEY = "tokenizer.ggml.merges"


def merging_library(
    vocabulary: Vocabulary, merges: Sequence[str], pre: PreTokenizer, **options: Any
) -> "Library":
    """Return the library's BPE without normalizer and pre-tokenizer; `options` are further ones of its model.

    It knows no control tokens, so that no word of a text is one.

    Raises TokenizerError naming `tokenizer.ggml.merges` for a merge that does not join two tokens to a third.
    """
    from tokenizers import Tokenizer, models

    # A token may begin with a space, so that the one between the two is never the first character.
    pairs = [(merge[:at], merge[at + 1 :]) for merge in merges if (at := merge.find(" ", 1)) > 0]
    if len(pairs) < len(merges):
        raise misfit(vocabulary, merges)
    writable = vocabulary.writable()
    if len(writable) < len(vocabulary.ids):
        pairs = [(left, right) for left, right in pairs if _makes_text(vocabulary, writable, left, right)]
    try:
        with library_faults():
            model = models.BPE(spellable(writable), pairs, ignore_merges=pre.ignore_merges, **options)
    except (LibraryFault, UnicodeError) as error:
        raise misfit(vocabulary, merges) from error
    return Tokenizer(model)


def splits_of(pre: PreTokenizer) -> "tuple[Step, ...]":
    """Return the steps that cut a text into words."""
    from tokenizers import Regex
    from tokenizers.pre_tokenizers import Split

    return tuple(Split(Regex(split), "isolated") for split in pre.splits)


def one_after_the_other(steps: "Iterable[Step]") -> "Step":
    """Return one step that does all these."""
    from tokenizers.pre_tokenizers import Sequence as Steps

    return Steps(list(steps))


def misfit(vocabulary: Vocabulary, merges: Sequence[str]) -> TokenizerError:
    """Return the error for the first merge that does not fit the vocabulary."""
    writable = vocabulary.writable()
    found = next(
        ((i, merge) for i, merge in enumerate(merges) if not _fits(vocabulary, writable, merge)), (0, "")
    )
    return TokenizerError(
        f"{vocabulary.path}: metadata {MERGES_KEY}: merge {found[0]}, {found[1]!r}, "
        "does not join two tokens to a third"
    )


def _fits(vocabulary: Vocabulary, writable: Mapping[str, int], merge: str) -> bool:
    """Tell whether a merge joins two tokens to a third, all of whole characters, or is left out."""
    at = merge.find(" ", 1)
    if at < 0:
        return False
    parts = (merge[:at], merge[at + 1 :], merge[:at] + merge[at + 1 :])
    if not _makes_text(vocabulary, writable, *parts[:2]):
        return True
    return all(part in writable and is_text(part) for part in parts)


def _makes_text(vocabulary: Vocabulary, writable: Mapping[str, int], left: str, right: str) -> bool:
    """Tell whether a merge has nothing to do with a token that text must not become."""
    return all(token in writable or token not in vocabulary.ids for token in (left, right, left + right))
