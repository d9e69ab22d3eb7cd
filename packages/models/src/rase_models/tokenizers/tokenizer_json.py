"""The tokenizer of a tokenizer.json, run by the `tokenizers` library.

Only the way from ids to bytes is ours, because the library decodes whole texts and gives characters.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from rase_core.errors import TokenizerError, UnencodableText
from rase_core.json_text import NotJson, parse_json
from rase_core.model_file import open_file
from tokenizers import Tokenizer as Library
from tokenizers.models import BPE, Unigram

from rase_models.tokenizers.byte_level import byte_level_bytes
from rase_models.tokenizers.end_of_generation import end_names
from rase_models.tokenizers.library import NO_TOKEN, LibraryFault, library_faults, library_ids
from rase_models.tokenizers.library_losses import library_losses
from rase_models.tokenizers.literal_library import literal_library
from rase_models.tokenizers.marked_library import MarkedLibrary
from rase_models.tokenizers.pieces import BytesOf, literal_bytes, sentencepiece_bytes
from rase_models.tokenizers.tokenizer import SpecialRules, Tokenizer

_BOS_NAMES = ("<bos>", "<s>", "<|begin_of_text|>", "<｜begin▁of▁sentence｜>", "<|startoftext|>", "[BOS]")
_EOS_NAMES = (
    "<eos>",
    "</s>",
    "<|im_end|>",
    "<|end_of_text|>",
    "<｜end▁of▁sentence｜>",
    "<|endoftext|>",
    "[EOS]",
)

_MOST_BYTES = 1 << 28
"""Of a tokenizer.json; the largest in use have about 40 MiB."""

_PREFIX = "Cannot instantiate Tokenizer from buffer: "
"""What the library says before each fault of a file's."""

_SCHEMES: dict[str, BytesOf] = {"ByteLevel": byte_level_bytes, "ByteFallback": sentencepiece_bytes}
_PLAIN_STEPS = frozenset(("Replace", "Fuse", "Strip", "Metaspace"))


def tokenizer_from_json(path: Path) -> Tokenizer:
    """Build the tokenizer of a tokenizer.json.

    Raises ModelFileNotFound; TokenizerError when the file is no such JSON, or names a decoder whose tokens
    cannot be turned into bytes one by one.
    """
    return _built(path, _read(path))


def _built(path: Path, library: Library) -> Tokenizer:
    added = library.get_added_tokens_decoder()
    special = {token.content: i for i, token in added.items() if token.special}
    contents = {i: token.content for i, token in added.items()}
    rules = _rules(path, library, special, contents)
    pieces = _LibraryPieces(library, contents, _spelling(path, library))
    return Tokenizer(
        _LibraryEncoder(path, library),
        pieces,
        rules,
        library_losses(library, NO_TOKEN),
        lambda size: _built(path, _narrowed(path, library, size)),
    )


def _narrowed(path: Path, library: Library, size: int) -> Library:
    """Return a tokenizer without the added tokens of `size` and above."""
    document = json.loads(library.to_str())
    document["added_tokens"] = [token for token in document["added_tokens"] if token["id"] < size]
    with _naming(path):
        return Library.from_str(json.dumps(document))


class _LibraryEncoder:
    def __init__(self, path: Path, library: Library) -> None:
        self._path = path
        self._library = library

    def encode(self, text: str, *, add_special_tokens: bool, parse_special: bool) -> list[int]:
        return _ids(self._library if parse_special else self._literal, text, add_special_tokens)

    def encode_marked(self, text: str, mark: str) -> list[int]:
        try:
            return self._marked.ids(text, mark)
        except LibraryFault as error:
            raise UnencodableText(_unencodable(self._library, text.replace(mark, ""))) from error

    @cached_property
    def _marked(self) -> MarkedLibrary:
        return MarkedLibrary(self._library)

    @cached_property
    def _literal(self) -> Library:
        # A copy, since the switch is a property of the whole tokenizer and other threads use that one.
        with _naming(self._path):
            return literal_library(self._library)


class _LibraryPieces:
    def __init__(self, library: Library, added: Mapping[int, str], spelt: BytesOf) -> None:
        self._library = library
        self._added = added  # by the library, some are normalised
        self._spelt = spelt

    @cached_property
    def size(self) -> int:
        return max(self._library.get_vocab(with_added_tokens=True).values(), default=-1) + 1

    def id_of(self, token: str) -> int | None:
        found: int | None = self._library.token_to_id(token)
        return found

    def token_of(self, token: int) -> str | None:
        if token in self._added:
            return self._added[token]
        found: str | None = self._library.id_to_token(token) if 0 <= token < 1 << 32 else None
        return found

    def bytes_of(self, token: int) -> bytes:
        spelling = self.token_of(token)
        if spelling is None:
            return b""
        return literal_bytes(spelling) if token in self._added else self._spelt(spelling)


def _ids(library: Library, text: str, add_special_tokens: bool) -> list[int]:
    """Return the ids of a text; raises UnencodableText."""
    ids = _encoded(library, text, add_special_tokens)
    if ids is None:
        raise UnencodableText(_unencodable(library, text))
    return ids


def _encoded(library: Library, text: str, add_special_tokens: bool) -> list[int] | None:
    """Return the ids of a text; None when it has a part that no token stands for."""
    try:
        return library_ids(library, text, add_special_tokens=add_special_tokens)
    except LibraryFault:
        return None


def _unencodable(library: Library, text: str) -> str:
    """Name what no token stands for."""
    spells = isinstance(library.model, BPE | Unigram)  # others have tokens for whole words only
    lost = (c for c in dict.fromkeys(text) if spells and _encoded(library, c, False) is None)
    return next(map(repr, lost), "a part of the text")


@contextmanager
def _naming(path: Path, data: bytes | None = None) -> Iterator[None]:
    """Turn what the library raises, of a file with this content, into TokenizerError with the file's name."""
    try:
        with library_faults():
            yield
    except LibraryFault as error:
        reason = (data is not None and _broken_json(data)) or str(error).removeprefix(_PREFIX)
        raise TokenizerError(
            f"{path}: not a tokenizer.json: {reason}",
            "attach the tokenizer.json of the model's own repository",
        ) from error


def _broken_json(data: bytes) -> str | None:
    """Say why a content is no JSON; None for one that is."""
    try:
        parse_json(data)
    except NotJson as error:
        return str(error)
    return None


def _read(path: Path) -> Library:
    with open_file(path) as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise TokenizerError(f"{path}: more than {_MOST_BYTES >> 20} MiB, too long for a tokenizer.json")
    with _naming(path, data):
        library = Library.from_buffer(data)
        if isinstance(library.model, BPE) and library.model.unk_token is None:
            library.model.unk_token = NO_TOKEN
    library.no_padding()
    library.no_truncation()
    return library


def _steps(library: Library) -> list[dict[str, Any]]:
    """Return the steps of the decoder, as the file describes them."""
    if library.decoder is None:
        return []
    state = json.loads(library.decoder.__getstate__())
    steps: list[dict[str, Any]] = state["decoders"] if state["type"] == "Sequence" else [state]
    return steps


def _spelling(path: Path, library: Library) -> BytesOf:
    """Return how the tokens of this decoder spell bytes."""
    kinds = [step["type"] for step in _steps(library)]
    known = [_SCHEMES[kind] for kind in kinds if kind in _SCHEMES]
    if known:
        return known[0]
    if kinds and all(kind in _PLAIN_STEPS for kind in kinds):
        return sentencepiece_bytes
    raise TokenizerError(
        f"{path}: cannot turn single tokens into bytes with the decoder {'+'.join(kinds) or 'null'}",
        f"known decoders: {', '.join((*_SCHEMES, *sorted(_PLAIN_STEPS)))}",
    )


def _strips_space(step: dict[str, Any]) -> bool:
    match step["type"]:
        case "Strip":
            return bool(step["content"] == " " and step["start"] > 0)
        case "Metaspace":
            return bool(step.get("prepend_scheme", "always") != "never")
        case _:
            return False


def _rules(path: Path, library: Library, special: dict[str, int], added: Mapping[int, str]) -> SpecialRules:
    with _naming(path):
        first = _first_added(library)
    by_name = next((special[name] for name in _BOS_NAMES if name in special), None)
    names = {token: i for i, token in added.items()}
    adds_space = any(_strips_space(step) for step in _steps(library))
    return SpecialRules(
        bos=by_name if first is None else first,
        eos=next((special[name] for name in _EOS_NAMES if name in special), None),
        ends=end_names(names, special),
        hidden=frozenset(special.values()),
        markers=frozenset(added),
        add_bos=first is not None,
        adds_space=adds_space,
    )


def _first_added(library: Library) -> int | None:
    """Return the token that encoding puts before a text, if it puts one."""
    texts = ("a", *library.get_vocab(with_added_tokens=True))
    sample = next((text for text in texts if _encoded(library, text, False) is not None), "")
    plain = library.encode(sample, add_special_tokens=False).ids
    full = library.encode(sample, add_special_tokens=True).ids
    return full[0] if full[: len(plain)] != plain else None
