"""What the documentation says of backends is what the code has."""

import re
from pathlib import Path
from typing import get_args

import pytest
from rase_models.gguf import GgmlType
from rase_models.program import Op

DOCS = Path(__file__).parents[1] / "docs"


def test_the_table_of_ops_names_every_op() -> None:
    text = (DOCS / "add-a-backend.md").read_text(encoding="utf-8")
    table = text.split("<!-- ops -->")[1].split("<!-- /ops -->")[0]
    assert re.findall(r"^\| `(\w+)`", table, re.MULTILINE) == sorted(op.__name__ for op in get_args(Op))


def test_the_table_of_metal_s_weights_is_right() -> None:
    pytest.importorskip("mlx.core", reason="MLX is not installed")
    from rase_models.backends.metal.affine import AFFINE

    rows = re.findall(
        r"^\| ([A-Z0-9_ ]+) \| (\d) \| (\w+)", (DOCS / "metal.md").read_text(encoding="utf-8"), re.M
    )
    written = {
        GgmlType[name]: (int(bits), exact == "exact") for names, bits, exact in rows for name in names.split()
    }
    assert written == {type_: (form.bits, form.is_exact) for type_, form in AFFINE.items()}


def test_the_types_that_metal_reads_in_blocks_are_right() -> None:
    pytest.importorskip("mlx.core", reason="MLX is not installed")
    from rase_models.backends.metal.block_formats import BLOCK_FORMATS

    text = (DOCS / "metal.md").read_text(encoding="utf-8")
    found = re.search(r"types in blocks on a GPU \|\n\|---\|\n\| ([A-Z0-9_ ]+) \|", text)
    assert found is not None
    assert {GgmlType[name] for name in found[1].split()} == set(BLOCK_FORMATS)
