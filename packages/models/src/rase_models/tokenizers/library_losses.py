"""What a tokenizer.json may leave out of a text, so that the number of its tokens has a lower bound."""

import json
from typing import Any

from tokenizers import Tokenizer as Library
from tokenizers.models import BPE

from rase_models.tokenizers.least_tokens import Losses
from rase_models.tokenizers.space import SPACE

_COMPOSED = 3
"""How many times shorter NFC makes a text at most: three letters of Hangul become one."""

_SPACES = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
_SPLITTERS = frozenset(("ByteLevel", "Digits", "Metaspace", "Punctuation", "Split"))
_MAYBE_SPACE = bytes((*b" \t\n\v\f\r", *range(0x1C, 0x20), *range(0x80, 0x100)))


def library_losses(library: Library, no_token: str) -> Losses | None:
    """Return what texts may lose; None where that may be anything.

    `no_token` is the unknown token of a model that fails at what it has no token for.
    """
    normalizers, splitters = _steps(library.normalizer), _steps(library.pre_tokenizer)
    composes = {"type": "NFC"} in normalizers
    keeps = all(step in (_SPACES, {"type": "NFC"}) or step["type"] == "Prepend" for step in normalizers)
    splits = all(step["type"] in _SPLITTERS and step.get("behavior") != "Removed" for step in splitters)
    if not (keeps and splits and _is_known(library, no_token)):
        return None
    strips = any(token.lstrip or token.rstrip for token in library.get_added_tokens_decoder().values())
    return Losses(_COMPOSED if composes else 1, _MAYBE_SPACE if strips else b"", SPACE)


def _is_known(library: Library, no_token: str) -> bool:
    """Tell whether no token stands for more than it spells, or a character."""
    model = library.model
    if not isinstance(model, BPE) or model.dropout or model.end_of_word_suffix:
        return False
    if model.continuing_subword_prefix:
        return False
    has_bytes = model.byte_fallback and all(
        library.token_to_id(f"<0x{byte:02X}>") is not None for byte in range(256)
    )
    return has_bytes or not model.fuse_unk or model.unk_token == no_token


def _steps(part: object) -> list[dict[str, Any]]:
    """Return the steps of a normalizer or pre-tokenizer, as the file describes them."""
    if part is None:
        return []
    state = json.loads(part.__getstate__())  # type: ignore[arg-type]
    steps: list[dict[str, Any]] = [state]
    if state["type"] == "Sequence":
        steps = state.get("normalizers") or state.get("pretokenizers") or []
    return steps
