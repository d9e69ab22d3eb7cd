"""One table of a manifest, read with errors that name file, line and key."""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from rase_core.errors import InvalidManifest, shown

_SHA256 = re.compile(r"[0-9a-f]{64}")
_HEADER = re.compile(r"\s*\[\[?(?P<name>[^\]]+)\]")
_KEY = re.compile(r"""\s*["']?(?P<name>[A-Za-z0-9_-]+)["']?\s*[=.]""")


class ManifestTable:
    """The values of a table, checked as they are taken out; `name` and `index` say which table it is."""

    def __init__(
        self, path: Path, text: str, values: Mapping[str, object], name: str = "", index: int = 0
    ) -> None:
        self.values = values
        self._path, self._text, self._name, self._index = path, text, name, index
        self._asked: dict[str, None] = {}
        self._within: list[ManifestTable] = []

    def warnings(self) -> list[str]:
        """Return in words, once all is taken out, which keys nobody asked for, here and in tables within."""
        own = [self.error(key, self._unknown(key)).message for key in self.values if key not in self._asked]
        return own + [warning for table in self._within for warning in table.warnings()]

    def error(self, key: str, reason: str) -> InvalidManifest:
        """Return the error that says what is wrong with a key."""
        full_key = f"{self._name}.{key}" if self._name else key
        return InvalidManifest(self._path, reason, key=full_key, line=self._line(key))

    def string(self, key: str) -> str:
        """Return a text that must be there and not be empty."""
        value = self.optional_string(key)
        if value is None:
            raise self.error(key, "is missing")
        return value

    def optional_string(self, key: str) -> str | None:
        """Return a text, None when the key is not there."""
        value = self._value(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value:
            raise self.error(key, f"is {shown(value)}, expected a text")
        return value

    def strings(self, key: str) -> tuple[str, ...]:
        """Return a list of texts, none when the key is not there."""
        value = self._value(key, [])
        if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
            raise self.error(key, f"is {shown(value)}, expected a list of texts")
        return tuple(value)

    def one_of(self, key: str, names: Sequence[str]) -> str:
        """Return a text that is one of the names."""
        value = self.string(key)
        if value not in names:
            raise self.error(key, f"is {shown(value)}, expected {' or '.join(names)}")
        return value

    def integer(self, key: str, least: int, most: int) -> int:
        """Return a whole number that must be there."""
        value = self.optional_integer(key, least, most)
        if value is None:
            raise self.error(key, "is missing")
        return value

    def optional_integer(self, key: str, least: int, most: int) -> int | None:
        """Return a whole number, None when the key is not there."""
        value = self._value(key)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.error(key, f"is {shown(value)}, expected a whole number of {least} to {most}")
        return value

    def path_of(self, key: str) -> Path:
        """Return an absolute path that must be there."""
        return self._absolute(key, self.string(key))

    def optional_path(self, key: str) -> Path | None:
        """Return an absolute path, None when the key is not there."""
        value = self.optional_string(key)
        return None if value is None else self._absolute(key, value)

    def sha256(self, key: str) -> str:
        """Return a hash that must be there."""
        return self._hash(key, self.string(key))

    def optional_sha256(self, key: str) -> str | None:
        """Return a hash, None when the key is not there."""
        value = self.optional_string(key)
        return None if value is None else self._hash(key, value)

    def table(self, key: str) -> "ManifestTable | None":
        """Return a table within, None when the key is not there."""
        value = self._value(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.error(key, f"is {shown(value)}, expected a table")
        return self._inner(ManifestTable(self._path, self._text, value, key))

    def tables(self, key: str) -> Iterator["ManifestTable"]:
        """Return the tables of an array of tables, none when the key is not there."""
        value = self._value(key, [])
        if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
            raise self.error(key, f"is {shown(value)}, expected tables")
        for index, entry in enumerate(value):
            yield self._inner(ManifestTable(self._path, self._text, entry, key, index))

    def items(self) -> Mapping[str, object]:
        """Return all values, whatever their keys."""
        return {key: self._value(key) for key in self.values}

    def _inner(self, table: "ManifestTable") -> "ManifestTable":
        self._within.append(table)
        return table

    def _value(self, key: str, default: object = None) -> object:
        self._asked[key] = None
        return self.values.get(key, default)

    def _unknown(self, key: str) -> str:
        near = get_close_matches(key, self._asked, n=1)
        return "is unknown and has no effect" + (f"; is {near[0]!r} meant?" if near else "")

    def _absolute(self, key: str, value: str) -> Path:
        if not Path(value).is_absolute():
            raise self.error(key, f"is {shown(value)}, expected an absolute path")
        return Path(value)

    def _hash(self, key: str, value: str) -> str:
        if not _SHA256.fullmatch(value):
            raise self.error(key, f"is {shown(value)}, expected a sha256 of 64 lower-case hex digits")
        return value

    def _line(self, key: str) -> int | None:
        """Return the line of a key, or that of its table when the key is not there."""
        found = None if self._name else 1
        for number, table, index, name in _entries(self._text):
            if table == self._name and index == self._index:
                if name == key:
                    return number
                found = found or number
            elif not self._name and table == key and name == "":
                return number
        return found


def _entries(text: str) -> Iterator[tuple[int, str, int, str]]:
    """Yield (line, table, index of the table among those of its name, key) of headers (key "") and keys.

    Goes by the look of the lines, skipping those within multi-line strings; good enough to point at one.
    """
    table, counts, quote = "", {"": 0}, ""
    for number, line in enumerate(text.splitlines(), 1):
        if not quote:
            if header := _HEADER.match(line):
                table = header["name"].strip().strip("\"'")
                counts[table] = counts.get(table, -1) + 1
                yield number, table, counts[table], ""
            elif key := _KEY.match(line):
                yield number, table, counts[table], key["name"]
        quote = _open_quote(line, quote)


def _open_quote(line: str, quote: str) -> str:
    """Return the triple quote that is open after a line, given the one that was open before it."""
    for found in re.findall(r'"""|\'\'\'', line):
        if not quote:
            quote = found
        elif quote == found:
            quote = ""
    return quote
