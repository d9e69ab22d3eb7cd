"""Choosing and building the tokenizer of a file."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rase_core.errors import InvalidGguf, TokenizerError
from rase_core.model_file import open_file
from rase_core.weights import GGUF_MAGIC

from rase_models.gguf import GgufFile, open_gguf
from rase_models.tokenizers.byte_level import ByteLevelBpe, byte_level_bytes
from rase_models.tokenizers.dna import DnaWithin, dna_bytes
from rase_models.tokenizers.gguf_encoder import MARKER_KINDS, GgufEncoder, TextModel
from rase_models.tokenizers.highest_score import HighestScore
from rase_models.tokenizers.kinds import TokenKind
from rase_models.tokenizers.least_tokens import Losses
from rase_models.tokenizers.longest_match import LongestMatch, escaped_bytes
from rase_models.tokenizers.merge_table import MergeTable, table_of_merges, table_of_scores
from rase_models.tokenizers.merging_library import MERGES_KEY
from rase_models.tokenizers.pieces import BytesOf, VocabularyPieces, plain_bytes, sentencepiece_bytes
from rase_models.tokenizers.pre_tokenizers import PreTokenizer, pre_tokenizer
from rase_models.tokenizers.sentencepiece import SentencePieceBpe
from rase_models.tokenizers.space import SPACE
from rase_models.tokenizers.stripping import stripping_tokens
from rase_models.tokenizers.tokenizer import Compile, SpecialRules, Tokenizer
from rase_models.tokenizers.unigram import CHARSMAP_KEY, SpaceRules, Unigram
from rase_models.tokenizers.vocabulary import Vocabulary, read_vocabulary
from rase_models.tokenizers.wordpiece import WordPiece
from rase_models.tokenizers.words import WordBpe

SCORES_KEY = "tokenizer.ggml.scores"
ADD_SPACE_KEY = "tokenizer.ggml.add_space_prefix"
LOWERCASE_KEY = "tokenizer.ggml.normalizer.lowercase"
MERGE_SPACES_KEY = "tokenizer.ggml.remove_extra_whitespaces"


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


def _bpe(file: GgufFile) -> Tokenizer:
    pre = pre_tokenizer(file.string("tokenizer.ggml.pre", "default"))
    return _raw_bpe(file, pre) if pre.is_raw else _byte_level(file, pre)


def _byte_level(file: GgufFile, pre: PreTokenizer) -> Tokenizer:
    vocabulary = read_vocabulary(file, adds_bos=pre.adds_bos)
    model = ByteLevelBpe(vocabulary, file.strings(MERGES_KEY), pre)
    return _tokenizer(file, vocabulary, model, byte_level_bytes, Losses(), compile=model.compile)


def _dna(file: GgufFile) -> Tokenizer:
    pre = pre_tokenizer(file.string("tokenizer.ggml.pre", "default"))
    vocabulary = read_vocabulary(file, adds_bos=pre.adds_bos)
    text = ByteLevelBpe(vocabulary, file.strings(MERGES_KEY), pre)
    return _tokenizer(file, vocabulary, DnaWithin(vocabulary, text), dna_bytes, None, compile=text.compile)


def _raw_bpe(file: GgufFile, pre: PreTokenizer) -> Tokenizer:
    vocabulary = read_vocabulary(file, adds_bos=pre.adds_bos)
    return _merging(file, vocabulary, table_of_merges(vocabulary, file.strings(MERGES_KEY)), adds_space=False)


def _gemma4(file: GgufFile) -> Tokenizer:
    # Many files of Gemma 4 say that no BOS is added, but the models give nonsense without it.
    metadata = {**file.metadata, "tokenizer.ggml.add_bos_token": True}
    return _raw_bpe(replace(file, metadata=metadata), pre_tokenizer("gemma4"))


def _sentencepiece(file: GgufFile) -> Tokenizer:
    vocabulary = read_vocabulary(file, adds_bos=True)
    table = table_of_scores(vocabulary, _scores(file, vocabulary))
    return _merging(file, vocabulary, table, adds_space=file.boolean(ADD_SPACE_KEY, True))


def _merging(file: GgufFile, vocabulary: Vocabulary, table: MergeTable, *, adds_space: bool) -> Tokenizer:
    model = SentencePieceBpe(table, adds_space=adds_space)
    return _tokenizer(
        file,
        vocabulary,
        model,
        sentencepiece_bytes,
        Losses(space=SPACE),
        adds_space=adds_space,
        compile=model.compile,
    )


def _unigram(file: GgufFile) -> Tokenizer:
    vocabulary = read_vocabulary(file, adds_bos=False, adds_eos=True)
    charsmap = b""
    if file.integers(CHARSMAP_KEY, None) is not None:
        charsmap = np.asarray(file.metadata[CHARSMAP_KEY]).astype(np.uint8).tobytes()
    spaces = SpaceRules(file.boolean(ADD_SPACE_KEY, True), file.boolean(MERGE_SPACES_KEY, False))
    model = Unigram(vocabulary, _scores(file, vocabulary), charsmap, spaces)
    adds_space = spaces.adds_one or spaces.merges
    return _tokenizer(
        file, vocabulary, model, sentencepiece_bytes, None, adds_space=adds_space, compile=model.compile
    )


def _wordpiece(file: GgufFile) -> Tokenizer:
    vocabulary = read_vocabulary(file, adds_bos=True, adds_eos=True)
    lowercase = file.boolean(LOWERCASE_KEY, True)
    strips = file.boolean("tokenizer.ggml.normalizer.strip_accents", lowercase)
    model = WordPiece(vocabulary, lowercase=lowercase, strip_accents=strips)
    return _tokenizer(
        file, vocabulary, model, sentencepiece_bytes, None, adds_space=True, compile=model.compile
    )


def _words(file: GgufFile) -> Tokenizer:
    vocabulary = read_vocabulary(file, adds_bos=False)
    lowercase = file.boolean(LOWERCASE_KEY, False)
    model = WordBpe(table_of_merges(vocabulary, file.strings(MERGES_KEY)), lowercase=lowercase)
    return _tokenizer(file, vocabulary, model, sentencepiece_bytes, None)


def _rwkv(file: GgufFile) -> Tokenizer:
    vocabulary = read_vocabulary(file, adds_bos=False)
    return _tokenizer(file, vocabulary, LongestMatch(vocabulary), escaped_bytes, Losses())


def _highest_score(file: GgufFile) -> Tokenizer:
    vocabulary = read_vocabulary(file, adds_bos=False)
    model = HighestScore(vocabulary, _scores(file, vocabulary))
    return _tokenizer(file, vocabulary, model, plain_bytes, Losses())


MODELS: Mapping[str, Callable[[GgufFile], Tokenizer]] = {
    "gpt2": _bpe,
    "llama": _sentencepiece,
    "gemma4": _gemma4,
    "t5": _unigram,
    "bert": _wordpiece,
    "rwkv": _rwkv,
    "whitespace": _words,
    "plamo2": _highest_score,
    "hybriddna": _dna,
}
"""By `tokenizer.ggml.model`."""


def _tokenizer(
    file: GgufFile,
    vocabulary: Vocabulary,
    model: TextModel,
    spelt: BytesOf,
    losses: Losses | None,
    *,
    adds_space: bool = False,
    compile: Compile | None = None,
) -> Tokenizer:
    encoder = GgufEncoder(vocabulary, model, stripping_tokens(file, vocabulary))
    rules = _rules(vocabulary, adds_space=adds_space)
    return Tokenizer(encoder, VocabularyPieces(vocabulary, spelt), rules, losses, compile=compile)


def _scores(file: GgufFile, vocabulary: Vocabulary) -> NDArray[np.float64]:
    scores = np.array(file.numbers(SCORES_KEY), np.float64)
    if scores.shape != (len(vocabulary.tokens),) or np.isnan(scores).any():
        raise TokenizerError(
            f"{file.path}: metadata {SCORES_KEY}: expected {len(vocabulary.tokens)} numbers, one for each "
            f"token, found {scores.size} of which {int(np.isnan(scores).sum())} are NaN"
        )
    return scores


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
