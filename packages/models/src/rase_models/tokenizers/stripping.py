"""Special tokens that take the white space after them away, which a GGUF does not tell."""

from rase_models.gguf import GgufFile
from rase_models.tokenizers.kinds import TokenKind
from rase_models.tokenizers.vocabulary import Vocabulary

_PHI3 = ("phi-3", "phi3")
_KEEPING = frozenset(("<unk>", "<s>", "<|endoftext|>"))


def stripping_tokens(file: GgufFile, vocabulary: Vocabulary) -> frozenset[int]:
    """Return the tokens after which white space is left out: most special ones of Phi 3, by its name."""
    name = file.string("general.name", "").lower()
    if not any(part in name for part in _PHI3):
        return frozenset()
    special = vocabulary.of_kind(TokenKind.CONTROL, TokenKind.UNKNOWN, TokenKind.USER_DEFINED)
    return frozenset(i for i in special if vocabulary.tokens[i] not in _KEEPING)
