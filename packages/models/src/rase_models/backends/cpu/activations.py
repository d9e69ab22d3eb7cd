"""Activations quantised to int8 per 32 columns, in records that every weight type multiplies with.

A record holds `panel` rows x 32 columns in 52 bytes a row; panels are of 1 row, or of 8 rows in batches.
Its parts, each for all rows of the panel:

    int8 [panel][32] values x / d, rounded half to even float32 [panel] d = max|x| / 127 | float32 [panel] d
    * sum of the values int32 [panel] -128 * sum | int32 [panel] -32 * sum of values 0..15 | int32 [panel]
    -32 * sum of values 16..31

Records of a panel follow each other over the columns, panels follow each other over the rows. The integer
sums are where dot products with weights that are stored with an offset start.
"""

from rase_models.backends.cpu.emission.code import Code
from rase_models.backends.cpu.emission.types import F32, I8, I32, LANES, Value, constant, vector

PANEL_ROWS = 8
"""Rows of a panel of a batch; unused rows are zeros."""
RECORD_COLUMNS = 32
RECORD_ROW_NBYTES = 52
SCALE, SCALED_SUM, START_128, START_32_LOW, START_32_HIGH = (32, 36, 40, 44, 48)
"""Byte offsets of a record's parts, for a panel of one row; a panel of 8 has 8 times as much."""

_LEAST_MAGNITUDE = 1e-30  # smaller blocks count as zeros: 127 / max|x| must stay finite


def record_nbytes(panel: int) -> int:
    """Return the size of a record of `panel` rows, which also is the distance to the next 32 columns."""
    return panel * RECORD_ROW_NBYTES


def panel_nbytes(panel: int, columns: int) -> int:
    """Return the size of a panel of `panel` rows and so many columns, a multiple of 32."""
    return columns // RECORD_COLUMNS * record_nbytes(panel)


def emit_quantise(code: Code, low: Value, high: Value, record: Value, row: Value, panel: Value) -> None:
    """Quantise 32 values (two float32 x 16) into row `row` of the record at an address.

    Not-a-number and infinity become a scale that makes every product with them not a number.
    """
    b = code.builder
    largest = _largest_magnitude(code, low, high)
    usable = b.fcmp_ordered(">", largest, constant(F32, _LEAST_MAGNITUDE))
    inverse = b.select(usable, b.fdiv(constant(F32, 127.0), largest), constant(F32, 0.0))
    scale = b.fmul(largest, constant(F32, 1.0 / 127.0))
    values = [code.round_to_int(b.fmul(part, code.splat(inverse))) for part in (low, high)]
    for index, part in enumerate(values):
        narrow = b.trunc(part, vector(I8, LANES))
        code.store(code.at(code.at(record, code.times(row, 32)), 16 * index), narrow)
    sums = [code.fold(part, b.add) for part in values]
    _store_parts(code, record, row, panel, scale, sums)


def _largest_magnitude(code: Code, low: Value, high: Value) -> Value:
    """Compare bit patterns of |x|: not-a-number is above infinity, and so is never lost."""
    b = code.builder
    ints = vector(I32, LANES)
    patterns = [b.bitcast(code.absolute(part), ints) for part in (low, high)]

    def larger(x: Value, y: Value) -> Value:
        return b.select(b.icmp_signed(">", x, y), x, y)

    return b.bitcast(code.fold(larger(*patterns), larger), F32)


def _store_parts(
    code: Code, record: Value, row: Value, panel: Value, scale: Value, sums: list[Value]
) -> None:
    b = code.builder
    total = b.add(*sums)
    parts = {
        SCALE: scale,
        SCALED_SUM: b.fmul(scale, b.sitofp(total, F32)),
        START_128: b.mul(total, constant(I32, -128)),
        START_32_LOW: b.mul(sums[0], constant(I32, -32)),
        START_32_HIGH: b.mul(sums[1], constant(I32, -32)),
    }
    address = code.at(record, code.times(row, 4))
    for offset, value in parts.items():
        code.store(code.at(address, code.times(panel, offset)), value, 4)
