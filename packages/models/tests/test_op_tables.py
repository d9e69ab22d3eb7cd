"""Every backend has every op: a program that one could not run would fail in the midst of a request."""

from importlib import import_module
from typing import get_args

import pytest
from rase_models.program import Op

TABLES = {
    "reference": ("rase_models.backends.reference.ops", "_OPS", "numpy"),
    "cpu": ("rase_models.backends.cpu.lowering", "EMITTERS", "numba"),
    "metal": ("rase_models.backends.metal.ops", "OPS", "mlx.core"),
    "cuda": ("rase_models.backends.cuda.lowering.table", "LOWERINGS", "numpy"),
}


@pytest.mark.parametrize("backend", TABLES)
def test_a_backend_has_every_op(backend: str) -> None:
    module, table, library = TABLES[backend]
    pytest.importorskip(library)
    known = getattr(import_module(module), table)
    assert [op.__name__ for op in get_args(Op) if op not in known] == []


def test_an_op_names_fields_that_it_has() -> None:
    for op in get_args(Op):
        assert set(op.TENSORS) <= set(op.__dataclass_fields__), op
