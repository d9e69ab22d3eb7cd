"""Which tokens end an answer: models name some of them in metadata and others only by their text."""

from collections.abc import Iterable, Mapping

from rase_core.errors import InvalidGguf, TokenizerError

from rase_models.gguf import GgufFile
from rase_models.tokenizers.kinds import TokenKind
from rase_models.tokenizers.special_ids import special_id

END_KEYS = ("eos", "eot", "eom", "fim_pad", "fim_rep", "fim_sep")

UNMISTAKABLE_NAMES = frozenset(
    [
        "<|eot_id|>",
        "<|eom_id|>",
        "<|im_end|>",
        "<|end|>",
        "<|return|>",
        "<|call|>",
        "<|calls|>",
        "<|flush|>",
        "<|endoftext|>",
        "<|end_of_text|>",
        "<end_of_turn>",
        "<turn|>",
        "<|tool_response>",
        "<end_of_utterance>",
        "<｜end▁of▁sentence｜>",
        "[e~[",
        "<|fim_pad|>",
        "<fim-pad>",
        "<fim_pad>",
        "<|fim_repo|>",
        "<|repo_name|>",
        "<fim-repo>",
        "<reponame>",
        "<|file_sep|>",
    ]
)
"""Names that end an answer whatever kind the file gives them, since converters often give the wrong one."""

CONTROL_NAMES = frozenset(["</s>", "<eos>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<PAD>", "[PAD]", "<REPO>"])
"""Ordinary text in some vocabularies (`</s>` is HTML in Gemma's): these count as control tokens only."""

_NAMES = UNMISTAKABLE_NAMES | CONTROL_NAMES
_CHANNEL_MARKERS = ({"<|return|>", "<|call|>"}, {"<|calls|>", "<|flush|>"})


def end_of_generation_tokens(file: GgufFile, ids: Mapping[str, int] | None = None) -> frozenset[int]:
    """Return the ids of all tokens that end an answer, without building a tokenizer.

    They are those of the keys eos, eot, eom and of the fill-in-the-middle ends, and the well-known names (the
    list that llama.cpp keeps). Whoever has the `ids` of the tokens gives them, which saves looking at all.
    Raises TokenizerError when a key names an id outside the vocabulary.
    """
    try:
        tokens = file.strings("tokenizer.ggml.tokens", ())
        kinds = file.integers("tokenizer.ggml.token_type", ())
    except InvalidGguf as error:
        raise TokenizerError(error.message, error.advice) from error
    named = (special_id(file, name, len(tokens)) for name in END_KEYS)
    by_key = frozenset(token for token in named if token is not None)
    known = _known(tokens) if ids is None else {name: ids[name] for name in _NAMES if name in ids}
    control = {token for token, i in known.items() if i < len(kinds) and kinds[i] == TokenKind.CONTROL}
    return by_key | end_names(known, control)


def _known(tokens: Iterable[str]) -> dict[str, int]:
    return {token: i for i, token in enumerate(tokens) if token in _NAMES}


def end_names(known: Mapping[str, int], control: Iterable[str]) -> frozenset[int]:
    """Return the ids of the tokens that end an answer by their names.

    `known` are the tokens to look at, `control` those of them that are control tokens. A format with channels
    uses `<|end|>` within an answer, so there it does not end one.
    """
    ends = (UNMISTAKABLE_NAMES & known.keys()) | (CONTROL_NAMES & known.keys() & set(control))
    if any(markers <= ends for markers in _CHANNEL_MARKERS):
        ends -= {"<|end|>"}
    return frozenset(known[token] for token in ends)
