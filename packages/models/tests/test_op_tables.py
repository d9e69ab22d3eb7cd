"""Every backend has every op: a program that one could not run would fail in the midst of a request."""

from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest
from rase_models.architectures import build_program, supported_architectures
from rase_models.backends.cpu.steps import reads, written
from rase_models.gguf import open_gguf
from rase_models.program import Op
from rase_models.testing_sketches import sketch, write_gguf

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


IN_PLACE: dict[str, tuple[str, ...]] = {
    "Activate": ("x",),
    "Add": ("x",),
    "AddDots": ("x",),
    "Blend": ("x", "y"),
    "Clamp": ("x",),
    "CopyParts": ("out",),
    "GatedActivation": ("gate", "up"),
    "LayerNorm": ("x",),
    "MixParts": ("base",),
    "Rescale": ("x",),
    "RmsNorm": ("x",),
    "Rotate": ("x",),
    "Scale": ("x",),
    "SoftCap": ("x",),
    "Sparsify": ("x",),
    "Xielu": ("x",),
}
"""The fields of inputs that an op may write to."""


@pytest.mark.parametrize("architecture", supported_architectures())
def test_ops_overwrite_no_input_but_those_that_they_may(tmp_path: Path, architecture: str) -> None:
    path = write_gguf(tmp_path / "model.gguf", architecture, *sketch(architecture, layers=4))
    for op in build_program(open_gguf(path)).ops:
        allowed = {getattr(op, field) for field in IN_PLACE.get(type(op).__name__, ())}
        others = [name for name in reads(op) if name not in allowed]
        assert written(op) not in others, op
