"""Choosing and building the tokenizer of a file."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from rase_core.errors import InvalidGguf, TokenizerError
from rase_core.model_file import open_file
from rase_core.weights import GGUF_MAGIC

from rase_models.gguf import GgufFile, open_gguf
from rase_models.tokenizers.byte_level import MERGES_KEY, ByteLevelBpe, byte_level_bytes
from rase_models.tokenizers.gguf_encoder import MARKER_KINDS, GgufEncoder
from rase_models.tokenizers.kinds import TokenKind
from rase_models.tokenizers.least_tokens import Losses
from rase_models.tokenizers.pieces import VocabularyPieces, sentencepiece_bytes
from rase_models.tokenizers.pre_tokenizers import pre_tokenizer
from rase_models.tokenizers.sentencepiece import SPACE, SentencePieceBpe
from rase_models.tokenizers.tokenizer import SpecialRules, Tokenizer
from rase_models.tokenizers.vocabulary import Vocabulary, read_vocabulary

SCORES_KEY = "tokenizer.ggml.scores"


def load_tokenizer(path: Path | str) -> Tokenizer:
    """Build the tokenizer of a tokenizer.json or of a GGUF; which of them the file is, its content says.

    Raises ModelFileNotFound; TokenizerError when the file is neither, is broken, or needs what is not known.
    """
    path = Path(path)
    with open_file(path) as file:
        is_gguf = file.read(len(GGUF_MAGIC)) == GGUF_MAGIC
    if is_gguf:
        return tokenizer_from_gguf(open_gguf(path))
    from rase_models.tokenizers.tokenizer_json import tokenizer_from_json

    return tokenizer_from_json(path)


def tokenizer_from_gguf(file: GgufFile) -> Tokenizer:
    """Build the tokenizer from a GGUF's own vocabulary.

    Raises TokenizerError naming the metadata key for an unknown `tokenizer.ggml.model` or pre-tokenizer and
    for a vocabulary that is missing or contradicts itself.
    """
    try:
        model = file.string("tokenizer.ggml.model")
        if model not in MODELS:
            raise TokenizerError(
                f"{file.path}: unknown tokenizer model {model!r} (tokenizer.ggml.model); "
                f"known: {', '.join(MODELS)}",
                "attach the model's tokenizer.json instead",
            )
        return MODELS[model](file)
    except InvalidGguf as error:
        raise TokenizerError(error.message, error.advice) from error


def _byte_level(file: GgufFile) -> Tokenizer:
    pre = pre_tokenizer(file.string("tokenizer.ggml.pre", "default"))
    vocabulary = read_vocabulary(file, adds_bos=pre.adds_bos)
    model = ByteLevelBpe(vocabulary, file.strings(MERGES_KEY), pre)
    pieces = VocabularyPieces(vocabulary, byte_level_bytes)
    rules = _rules(vocabulary, adds_space=False)
    return Tokenizer(GgufEncoder(vocabulary, model), pieces, rules, Losses())


def _sentencepiece(file: GgufFile) -> Tokenizer:
    vocabulary = read_vocabulary(file, adds_bos=True)
    scores = np.array(file.numbers(SCORES_KEY), np.float64)
    if scores.shape != (len(vocabulary.tokens),) or np.isnan(scores).any():
        raise TokenizerError(
            f"{file.path}: metadata {SCORES_KEY}: expected {len(vocabulary.tokens)} numbers, one for each "
            f"token, found {scores.size} of which {int(np.isnan(scores).sum())} are NaN"
        )
    adds_space = file.boolean("tokenizer.ggml.add_space_prefix", True)
    model = SentencePieceBpe(vocabulary, scores, adds_space=adds_space)
    pieces = VocabularyPieces(vocabulary, sentencepiece_bytes)
    rules = _rules(vocabulary, adds_space=adds_space)
    return Tokenizer(GgufEncoder(vocabulary, model), pieces, rules, Losses(space=SPACE))


MODELS: Mapping[str, Callable[[GgufFile], Tokenizer]] = {"gpt2": _byte_level, "llama": _sentencepiece}
"""By `tokenizer.ggml.model`."""


def _rules(vocabulary: Vocabulary, *, adds_space: bool) -> SpecialRules:
    return SpecialRules(
        bos=vocabulary.bos,
        eos=vocabulary.eos,
        ends=vocabulary.ends,
        hidden=frozenset(vocabulary.of_kind(TokenKind.CONTROL, TokenKind.UNKNOWN)),
        markers=frozenset(vocabulary.of_kind(*MARKER_KINDS)),
        add_bos=vocabulary.add_bos,
        adds_space=adds_space,
    )
