"""Tables of turns that grow with the positions in use."""

import numpy as np
import pytest
from numpy.typing import NDArray
from rase_models.backends.cpu import abi
from rase_models.backends.cpu.arena import Arena, Region
from rase_models.backends.cpu.kernel_key import KernelKey
from rase_models.backends.cpu.op_table import OpTable, Row
from rase_models.backends.cpu.rope_tables import RopeTables, rope_table
from rase_models.program import Rope, RopePairing

KEY = KernelKey("any")
ROPES = [Rope(RopePairing.HALVES, 4, (1.0, 0.01)), Rope(RopePairing.HALVES, 6, (1.0, 0.1, 0.003))]
ROWS = [(0, ROPES[0]), (1, ROPES[1]), (2, ROPES[0])]
FOLDER = "rase_models.backends.cpu.rope_tables"


def op_table() -> tuple[OpTable, NDArray[np.int64]]:
    """Return the table of three ops, and the addresses of their tables of turns."""
    arena = Arena(1 << 12)
    table = OpTable([Row(KEY, {}) for _ in ROWS], {KEY: 0}, arena)
    rows = arena._regions[0].bytes[: len(ROWS) * abi.OP_BYTES].view(np.int64)
    return table, rows.reshape(len(ROWS), -1)[:, abi.ROPE_TABLE // abi.WORD]


def test_ops_with_equal_ropes_share_a_table() -> None:
    table, addresses = op_table()
    tables = RopeTables(table, ROWS)
    tables.grow(5)
    assert tables.positions >= 5
    assert addresses[0] == addresses[2] != addresses[1]


@pytest.mark.parametrize("rope", ROPES)
def test_a_table_is_the_same_however_it_is_cut(rope: Rope, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{FOLDER}._SLICE_POSITIONS", 100)
    tables = RopeTables(op_table()[0], [(0, rope)])
    tables.grow(700)
    (memory,) = tables._memory
    expected = rope_table(rope, tables.positions)
    np.testing.assert_array_equal(memory.bytes.view(np.float32).reshape(expected.shape), expected)


@pytest.mark.parametrize("regions", [0, 1])
def test_without_memory_the_tables_stay_as_they_were(regions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    table, addresses = op_table()
    tables = RopeTables(table, ROWS)
    tables.grow(1)
    before, positions, left = addresses.tolist(), tables.positions, [None] * regions

    def scarce(nbytes: int) -> Region:
        if not left:
            raise MemoryError
        left.pop()
        return Region(nbytes)

    with monkeypatch.context() as patch:
        patch.setattr(f"{FOLDER}.Region", scarce)
        with pytest.raises(MemoryError):
            tables.grow(positions + 1)
    assert (tables.positions, addresses.tolist()) == (positions, before)
    tables.grow(positions + 1)
    assert tables.positions > positions
    assert not set(addresses) & set(before)
