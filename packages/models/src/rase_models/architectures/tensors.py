"""The tensor table of a model, asked for what an architecture needs."""

import math

from rase_core.errors import InvalidGguf, UnsupportedTensorType

from rase_models.gguf import GgmlType, GgufFile, TensorInfo
from rase_models.gguf.quants import BLOCK_DTYPES, dequantize

VECTOR_TYPES = (GgmlType.F32, GgmlType.F16, GgmlType.BF16)

_NO_PART = (".input_scale", "cls.weight", "cls.bias", "cls.output.weight", "cls.output.bias")
"""Ends of names that mean nothing here: scales of quantised activations, and classifier heads."""


class TensorTable:
    """Checks that tensors are there with the right shape and a usable type; remembers who was asked for.

    Raises InvalidGguf naming the tensor, what was expected and what was found, and UnsupportedTensorType.
    """

    def __init__(self, file: GgufFile) -> None:
        self._file = file
        self._asked: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._file.tensors

    def __len__(self) -> int:
        return len(self._file.tensors)

    def rows_of(self, name: str) -> int:
        """Return the first dimension of a matrix."""
        info = self._info(name, "a matrix")
        if len(info.shape) != 2:
            raise self._error(name, "2 dimensions", f"shape {_shown(info.shape)}")
        return info.shape[0]

    def dimensions(self, name: str) -> int:
        """Return how many dimensions a tensor has, apart from outermost ones of 1."""
        return len(_squeezed(self._info(name, "a tensor").shape))

    def matrix(self, name: str, *shape: int) -> str:
        """Ask for a matrix, or a stack of them, of any type that can be dequantised; return its name."""
        info = self._shaped(name, shape)
        if info.type not in BLOCK_DTYPES:
            raise UnsupportedTensorType(info.type.name, (kind.name for kind in BLOCK_DTYPES), name)
        return name

    def vector(self, name: str, *shape: int) -> str:
        """Ask for a vector of floats, or one for each of several things; return its name."""
        info = self._shaped(name, shape)
        if info.type not in VECTOR_TYPES:
            expected = " or ".join(kind.name for kind in VECTOR_TYPES)
            raise self._error(name, f"type {expected}", info.type.name)
        return name

    def optional_vector(self, name: str, *shape: int) -> str | None:
        """Ask for vectors of floats that a file may leave out; return their name or None."""
        return self.vector(name, *shape) if name in self else None

    def values(self, name: str, length: int, *, nonzero: bool = False) -> tuple[float, ...]:
        """Read the numbers of a short vector, which must be finite."""
        info = self._file.tensors[self.vector(name, length)]
        values = dequantize(info.type, self._file.read(name), info.shape).tolist()
        odd = sum(not math.isfinite(value) for value in values)
        if odd:
            raise self._error(name, "finite numbers", f"{odd} of {length} that are not")
        if nonzero and 0.0 in values:
            raise self._error(name, "no zeros", f"{values.count(0.0)} in {length} numbers")
        return tuple(values)

    def refuse(self, name: str, what: str) -> None:
        """Raise InvalidGguf when the file has a tensor that stands for something not supported."""
        if name in self:
            raise InvalidGguf(self._file.path, f"tensor {name!r}: {what}")

    def ignore(self, name: str) -> None:
        """Let a file have a tensor that does not count."""
        self._asked.add(name)

    def ignore_blocks(self, first: int, count: int) -> None:
        """Let a file have blocks that do not count."""
        blocks = tuple(f"blk.{block}." for block in range(first, first + count))
        self._asked.update(name for name in self._file.tensors if name.startswith(blocks))

    def check_all_asked(self) -> None:
        """Refuse tensors that nobody asked for: the model would not compute what its maker meant."""
        for name in self._file.tensors:
            if name not in self._asked and not name.endswith(_NO_PART):
                raise InvalidGguf(
                    self._file.path, f"tensor {name!r}: a {self._file.architecture} model has none"
                )

    def _shaped(self, name: str, shape: tuple[int, ...]) -> TensorInfo:
        info = self._info(name, f"shape {_shown(shape)}")
        if _squeezed(info.shape) != _squeezed(shape):
            raise self._error(name, f"shape {_shown(shape)}", _shown(info.shape))
        return info

    def _info(self, name: str, expected: str) -> TensorInfo:
        if name not in self._file.tensors:
            raise self._error(name, expected, "no such tensor")
        self._asked.add(name)
        return self._file.tensors[name]

    def _error(self, name: str, expected: str, found: str) -> InvalidGguf:
        return InvalidGguf(self._file.path, f"tensor {name!r}: expected {expected}, found {found}")


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape without its outermost dimensions of 1, which some writers leave out."""
    while len(shape) > 1 and shape[0] == 1:
        shape = shape[1:]
    return shape


def _shown(shape: tuple[int, ...]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"
