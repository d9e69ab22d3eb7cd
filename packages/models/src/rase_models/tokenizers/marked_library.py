"""The library that takes some spellings of special tokens for text and others for tokens."""

import secrets
from collections.abc import Iterator

from rase_core.fork_safe import ForkSafeLock
from tokenizers import AddedToken
from tokenizers import Tokenizer as Library
from tokenizers.models import WordLevel

from rase_models.tokenizers.library import NO_TOKEN, library_ids, library_spans
from rase_models.tokenizers.renamed_library import renamed_library
from rase_models.tokenizers.turn_markers import is_turn_marker


class MarkedLibrary:
    """A library in which special tokens have other names, so that their spellings are text.

    Where the library itself finds one in a text, its name takes the place. Nobody can write a name, since
    they are drawn, and none is left in a text, since nothing has to stand beside one for it to be found.
    User-defined tokens that divide turns are named, too. After a token that is found in normalised text, the
    text is normalised anew.
    """

    def __init__(self, library: Library) -> None:
        self._library = library
        self._added = library.get_added_tokens_decoder()
        named = {i: t.content for i, t in self._added.items() if t.special or is_turn_marker(t.content)}
        self._names = {content: f"\ue000{secrets.token_hex()}\ue000" for content in named.values()}
        self._own = frozenset(i for i in named if library.model.id_to_token(i) is not None)
        self._finder = self._finding()
        self._found = {self._finder.token_to_id(content): name for content, name in self._names.items()}
        self._quick = self._sharing()
        self._ids = self._old_ids()
        self._renamed: Library | None = None
        self._turn = ForkSafeLock()

    def ids(self, text: str, mark: str) -> list[int]:
        """Return the ids of a text, without the marks, in which no special token has a mark in it.

        Raises LibraryFault where no token stands for a part of the text.
        """
        named = "".join(self._parts(text, mark)).replace(mark, "")
        if self._ids is not None:
            ids = library_ids(self._quick, named, add_special_tokens=False)
            if self._own.isdisjoint(ids):
                return [self._ids.get(i, i) for i in ids] if self._ids else ids
        return library_ids(self._whole_copy(), named, add_special_tokens=False)

    def _parts(self, text: str, mark: str) -> Iterator[str]:
        """Yield the parts of a text, of which tokens that the library finds are names."""
        end = 0
        for i, (start, stop) in library_spans(self._finder, text):
            if i in self._found and mark not in text[start:stop]:
                yield text[end:start]
                yield self._found[i]
                end = stop
        yield text[end:]

    def _finding(self) -> Library:
        """Return a library that finds added tokens, and nothing in the text between them."""
        finder = Library(WordLevel({NO_TOKEN: 0}, NO_TOKEN))
        if self._library.normalizer is not None:
            finder.normalizer = self._library.normalizer
        finder.add_tokens([self._added[i] for i in sorted(self._added)])
        return finder

    def _sharing(self) -> Library:
        """Return a library with the same model, which takes no memory, and added tokens by their names."""
        copy = Library(self._library.model)
        for part in ("normalizer", "pre_tokenizer", "post_processor"):
            if (value := getattr(self._library, part)) is not None:
                setattr(copy, part, value)
        copy.add_tokens([self._by_name(self._added[i]) for i in sorted(self._added)])
        return copy

    def _by_name(self, token: AddedToken) -> AddedToken:
        name = self._names.get(token.content)
        return token if name is None else AddedToken(name, normalized=False)

    def _old_ids(self) -> dict[int, int] | None:
        """Return the ids of added tokens by those that they have under their names, where these differ.

        None where one of these is a token of the model.
        """
        ids = ((self._quick.token_to_id(self._by_name(token).content), i) for i, token in self._added.items())
        changed = {new: old for new, old in ids if new is not None and new != old}
        is_taken = any(self._library.model.id_to_token(new) is not None for new in changed)
        return None if is_taken else changed

    def _whole_copy(self) -> Library:
        """Return a library whose model has the names, too, which takes the time and memory of loading one."""
        with self._turn:
            if self._renamed is None:
                self._renamed = renamed_library(self._library, self._names)
            return self._renamed
