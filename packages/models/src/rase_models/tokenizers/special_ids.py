"""The ids under `tokenizer.ggml.*_token_id`, with the defaults of each tokenizer model."""

from collections.abc import Mapping

from rase_core.errors import InvalidGguf, TokenizerError

from rase_models.gguf import GgufFile

KEYS: Mapping[str, str] = {
    "bos": "tokenizer.ggml.bos_token_id",
    "eos": "tokenizer.ggml.eos_token_id",
    "eot": "tokenizer.ggml.eot_token_id",
    "eom": "tokenizer.ggml.eom_token_id",
    "sep": "tokenizer.ggml.seperator_token_id",
    "cls": "tokenizer.ggml.cls_token_id",
    "unknown": "tokenizer.ggml.unknown_token_id",
    "fim_pad": "tokenizer.ggml.fim_pad_token_id",
    "fim_rep": "tokenizer.ggml.fim_rep_token_id",
    "fim_sep": "tokenizer.ggml.fim_sep_token_id",
}

DEFAULTS: Mapping[str, Mapping[str, int]] = {
    "llama": {"unknown": 0, "bos": 1, "eos": 2},
    "plamo2": {"unknown": 0, "bos": 1, "eos": 2},
    "t5": {"eos": 1, "unknown": 2},
    "bert": {"unknown": 100, "cls": 101, "sep": 102},
}
"""By `tokenizer.ggml.model`: the ids that its makers give when nothing else is said."""

_INSTEAD: Mapping[str, Mapping[str, str]] = {"bert": {"bos": "cls", "eos": "sep"}}
"""By `tokenizer.ggml.model`: what it has in the place of tokens."""


def special_id(file: GgufFile, name: str, size: int) -> int | None:
    """Return the id of a special token of a vocabulary of `size` tokens, or None when it has none.

    Raises TokenizerError when the file names an id that is no integer or is outside the vocabulary.
    """
    try:
        found = file.integer(KEYS[name], None)
        model = file.string("tokenizer.ggml.model", "")
    except InvalidGguf as error:
        raise TokenizerError(error.message, error.advice) from error
    if found is None and (other := _INSTEAD.get(model, {}).get(name)):
        return special_id(file, other, size)
    if found is None:
        default = DEFAULTS.get(model, {}).get(name)
        return default if default is not None and default < size else None
    if size and not 0 <= found < size:
        raise TokenizerError(
            f"{file.path}: metadata {KEYS[name]}: token {found} is outside the vocabulary of {size}"
        )
    return found
