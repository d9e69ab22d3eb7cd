"""How quantised matrices lie on the device: planes, in each of which a group of 32 columns is aligned.

    FORMATS[GgmlType.Q4_K].planes(blocks) -> low bits of the codes, high bits, scales, scales of 256 columns

The blocks of a file have strides of 18, 22, 34, 110 or 210 bytes, from which a GPU cannot load 16 at once.
Nothing is lost: `format.cuh` computes the values that the file means.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from rase_models.backends.cuda.device import Source
from rase_models.gguf import quants
from rase_models.gguf.codebooks import CODEBOOKS
from rase_models.gguf.quants import nibbles
from rase_models.gguf.types import GgmlType

Blocks = NDArray[np.void]
Codes = NDArray[np.integer]
Bytes = NDArray[np.uint8]

GROUP = 32
_HALF, _HALF_PAIR, _K, _NIBBLES, _BYTES, _FLOAT, _FLOAT_PAIR = range(1, 8)
_SCALE_NBYTES = {_HALF: 2, _HALF_PAIR: 4, _K: 2, _NIBBLES: 2, _BYTES: 2, _FLOAT: 4, _FLOAT_PAIR: 8}
_SUPER_NBYTES = {_K: 4, _NIBBLES: 4, _BYTES: 2}
_IQ4, _FP4 = 1, 2
_SUPER = 256


@dataclass(frozen=True, slots=True)
class Format:
    """A type's form.

    Attributes:
        codes: returns the codes of blocks in the order of columns, [blocks, columns].
        scales: returns the bytes of the scales of blocks.
        kind: which scales they are, by the number in format.cuh.
        low_bits, high_bits: of a code, in two planes.
        offset: what is subtracted from a code.
        lookup: the table that codes are looked up in; 0 for none.
        supers: the fields of a block that are scales of 256 columns.
    """

    codes: Callable[[Blocks], Codes]
    scales: Callable[[Blocks], NDArray[np.generic]]
    kind: int
    low_bits: int = 4
    high_bits: int = 0
    offset: int = 0
    lookup: int = 0
    supers: tuple[str, ...] = ()

    @property
    def source(self) -> Source:
        """The kernels for matrices of this form."""
        macros = {
            "LOW_BITS": self.low_bits,
            "HIGH_BITS": self.high_bits,
            "SCALES": self.kind,
            "OFFSET": self.offset,
            "LOOKUP": self.lookup,
        }
        return Source("quantised.cu", tuple((name, str(value)) for name, value in macros.items()))

    def plane_nbytes(self, columns: int) -> tuple[int, int, int, int]:
        """Return the bytes of so many columns in each plane."""
        groups = columns // GROUP
        supers = _SUPER_NBYTES.get(self.kind, 0) * (columns // _SUPER)
        return (
            columns * self.low_bits // 8,
            4 * self.high_bits * groups,
            _SCALE_NBYTES[self.kind] * groups,
            supers,
        )

    def planes(self, blocks: Blocks) -> tuple[Bytes, Bytes, Bytes, Bytes]:
        """Take blocks apart: the bytes of each plane."""
        codes = np.ascontiguousarray(self.codes(blocks)).view(np.uint8).reshape(-1, GROUP)
        halves = [blocks[field][:, None] for field in self.supers]
        supers = np.concatenate(halves, axis=1) if halves else np.empty(0, np.uint8)
        return (
            _LOW[self.low_bits](codes).reshape(-1),
            self._high(codes),
            _bytes(self.scales(blocks)),
            _bytes(supers),
        )

    def _high(self, codes: Bytes) -> Bytes:
        planes = [codes >> (self.low_bits + plane) & 1 for plane in range(self.high_bits)]
        if not planes:
            return np.empty(0, np.uint8)
        return np.packbits(np.stack(planes, axis=1), axis=-1, bitorder="little").reshape(-1)


def _bytes(values: NDArray[np.generic]) -> Bytes:
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)


def _two_bits(codes: Bytes) -> Bytes:
    quarters = (codes & 3).reshape(-1, 4, 8) << np.array([[0], [2], [4], [6]], np.uint8)
    return np.asarray(np.bitwise_or.reduce(quarters, axis=1), np.uint8)


def _four_bits(codes: Bytes) -> Bytes:
    return np.asarray((codes[:, :16] & 15) | (codes[:, 16:] & 15) << 4, np.uint8)


_LOW: Mapping[int, Callable[[Bytes], Bytes]] = {2: _two_bits, 4: _four_bits, 8: lambda codes: codes}


def _field(*names: str) -> Callable[[Blocks], NDArray[np.generic]]:
    """Return fields of blocks, one after another for each."""
    return lambda blocks: np.stack([blocks[name] for name in names], axis=-1)


def _k_scales(blocks: Blocks) -> NDArray[np.generic]:
    return np.stack(quants.k_scales(blocks), axis=-1)


def _repeated(blocks: Blocks) -> NDArray[np.generic]:
    return np.repeat(blocks["d"].astype(np.float32)[:, None], _SUPER // GROUP, axis=1)


def _book(type_: GgmlType) -> Format:
    """Make the form of a type with a codebook: its values as codes of 8 bits, its scales as floats."""
    book = CODEBOOKS[type_]
    values = np.array(book.values, np.int8)

    def scales(blocks: Blocks) -> NDArray[np.generic]:
        coded = book.decode(blocks)
        found: NDArray[np.generic] = (
            coded.d.astype(np.float32)[:, None] * np.float32(book.factor) * coded.scales
        )
        return found

    kind = _FLOAT if book.scales == _SUPER // GROUP else _FLOAT_PAIR
    return Format(lambda blocks: values[book.decode(blocks).codes], scales, kind, low_bits=8)


def _nibbles(blocks: Blocks) -> Codes:
    return nibbles(blocks["qs"], 16)


FORMATS: Mapping[GgmlType, Format] = MappingProxyType(
    {
        GgmlType.Q4_0: Format(_nibbles, _field("d"), _HALF, offset=8),
        GgmlType.Q4_1: Format(_nibbles, _field("d", "m"), _HALF_PAIR),
        GgmlType.Q5_0: Format(quants.five_bits, _field("d"), _HALF, high_bits=1, offset=16),
        GgmlType.Q5_1: Format(quants.five_bits, _field("d", "m"), _HALF_PAIR, high_bits=1),
        GgmlType.Q8_0: Format(lambda blocks: blocks["qs"], _field("d"), _HALF, low_bits=8),
        GgmlType.Q2_K: Format(
            lambda blocks: quants.crumbs(blocks["qs"]),
            _field("scales"),
            _NIBBLES,
            low_bits=2,
            supers=("d", "dmin"),
        ),
        GgmlType.Q3_K: Format(
            quants.q3_k_codes,
            lambda blocks: quants.q3_k_scales(blocks["scales"]),
            _BYTES,
            low_bits=2,
            high_bits=1,
            offset=4,
            supers=("d",),
        ),
        GgmlType.Q4_K: Format(lambda blocks: nibbles(blocks["qs"], 32), _k_scales, _K, supers=("d", "dmin")),
        GgmlType.Q5_K: Format(quants.q5_k_codes, _k_scales, _K, high_bits=1, supers=("d", "dmin")),
        GgmlType.Q6_K: Format(
            lambda blocks: nibbles(blocks["ql"], 64) | quants.crumbs(blocks["qh"]) << 4,
            _field("scales"),
            _BYTES,
            high_bits=2,
            offset=32,
            supers=("d",),
        ),
        GgmlType.IQ4_NL: Format(_nibbles, _field("d"), _HALF, lookup=_IQ4),
        GgmlType.IQ4_XS: Format(_nibbles, quants.iq4_xs_scales, _FLOAT, lookup=_IQ4),
        GgmlType.MXFP4: Format(_nibbles, quants.mxfp4_scales, _FLOAT, lookup=_FP4),
        GgmlType.NVFP4: Format(
            lambda blocks: nibbles(blocks["qs"], 8), quants.nvfp4_scales, _FLOAT_PAIR, lookup=_FP4
        ),
        GgmlType.TQ1_0: Format(quants.trits, _repeated, _FLOAT, low_bits=2, offset=1),
        GgmlType.TQ2_0: Format(
            lambda blocks: quants.crumbs(blocks["qs"]), _repeated, _FLOAT, low_bits=2, offset=1
        ),
        **{type_: _book(type_) for type_ in CODEBOOKS},
    }
)
"""The form of every quantised type."""

ELEMENTS: Mapping[GgmlType, str] = MappingProxyType(
    {GgmlType.F32: "F32", GgmlType.F16: "F16", GgmlType.BF16: "Bf16"}
)
"""What numbers.cuh calls the floats of a file."""


def float_source(type_: GgmlType) -> Source:
    """Return the kernels for matrices of floats."""
    return Source("floats.cu", (("ELEMENT", ELEMENTS[type_]),))
