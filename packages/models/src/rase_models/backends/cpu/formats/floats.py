"""F32, F16 and BF16: multiplied with float32 activations, column by column."""

from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import ir

from rase_models.backends.cpu.emission.code import Code
from rase_models.backends.cpu.emission.types import F32, I16, LANES, Value, vector
from rase_models.backends.cpu.formats.packed_format import GROUP_ROWS, RowBlock
from rase_models.gguf.types import GgmlType


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """Rows of floats, 16 of them interleaved: [columns][16]. Any number of columns.

    Attributes:
        name: a short name, unique among all formats.
        type: the type in the file.
        element_nbytes: bytes of a weight.
        element: the LLVM type that a weight is loaded as.
        convert: emits the conversion of the bits, one or a vector, to float32.
    """

    name: str
    type: GgmlType
    element_nbytes: int
    element: ir.Type
    convert: Callable[[Code, Value], Value]
    columns: int = 1

    @property
    def is_quantised(self) -> bool:
        """Whether activations are int8 records; otherwise they are float32 rows."""
        return False

    @property
    def nbytes(self) -> int:
        """Bytes of a column of 16 rows."""
        return GROUP_ROWS * self.element_nbytes

    def blocks(self, columns: int) -> int:
        """Return the number of columns."""
        return columns

    def packed_nbytes(self, rows: int, columns: int) -> int:
        """Return the size of a packed matrix."""
        return -(-rows // GROUP_ROWS) * columns * self.nbytes

    @property
    def file_nbytes(self) -> int:
        """Bytes in the file of one column of one row."""
        return self.element_nbytes

    def pack(self, block: RowBlock) -> None:
        """Emit the move of one weight."""
        block.copy(0, 0, self.element_nbytes)

    def load(self, code: Code, address: Value) -> Value:
        """Emit the load of 16 weights as float32."""
        return self.convert(code, code.load(address, vector(self.element, LANES), self.nbytes))


def _keep(_: Code, x: Value) -> Value:
    return x


F32_FORMAT = FloatFormat("f32", GgmlType.F32, 4, F32, _keep)
F16_FORMAT = FloatFormat("f16", GgmlType.F16, 2, I16, Code.half_to_float)
BF16_FORMAT = FloatFormat("bf16", GgmlType.BF16, 2, I16, Code.bfloat_to_float)
