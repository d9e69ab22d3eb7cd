"""How MLX writes the Metal backend's kernels, which it does without Metal when a function is exported."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from rase_models.gguf import TYPE_LAYOUTS, GgmlType
from rase_models.program import Attention

mx = pytest.importorskip("mlx.core", reason="MLX is not installed: pip install 'rase-models[metal]'")

from rase_models.backends.metal.block_formats import BLOCK_FORMATS  # noqa: E402
from rase_models.backends.metal.block_kernels import MOST_ROWS, block_kernels  # noqa: E402
from rase_models.backends.metal.block_matrix import BlockMatrix  # noqa: E402
from rase_models.backends.metal.groups import Group, window_of  # noqa: E402
from rase_models.backends.metal.kernel_maker import Kernel  # noqa: E402
from rase_models.backends.metal.narrowing import Narrowing  # noqa: E402
from rase_models.backends.metal.paged_attention import attention_kernels  # noqa: E402
from rase_models.backends.metal.seen import Seen  # noqa: E402


@dataclass(frozen=True)
class Telling:
    """Makes MLX's kernels, and has it print them."""

    def __call__(
        self, name: str, input_names: Sequence[str], output_names: Sequence[str], source: str, header: str
    ) -> Kernel:
        kernel = mx.fast.metal_kernel(name, input_names, output_names, source, header=header)
        return lambda **given: kernel(**given, verbose=True)


@dataclass(frozen=True)
class Written:
    """The kernels that MLX wrote: their parameters, by name of the kernel, then of the parameter."""

    texts: dict[str, str]

    def space(self, kernel: str, name: str) -> set[str]:
        """Return the address spaces in which an array is given to the variants of a kernel."""
        found = (re.search(rf"(constant|device) \w+\* {name} \[\[", self.texts[key]) for key in self.texts)
        return {match[1] for key, match in zip(self.texts, found, strict=True) if match and kernel in key}


def written(function: Callable[..., object], folder: Path, capfd: pytest.CaptureFixture[str]) -> Written:
    try:
        mx.export_function(str(folder / "exported.mlxfn"), function)
    except RuntimeError as error:
        pytest.skip(f"this MLX writes no kernels without Metal: {error}")
    texts = re.findall(r"Generated source code for `\w+`:\n```\n(.*?)\n```", capfd.readouterr().out, re.S)
    return Written({re.findall(r"\[\[kernel\]\] void (\w+)\(", text)[0]: text for text in texts})


@pytest.mark.parametrize("type_", BLOCK_FORMATS, ids=lambda type_: type_.name)
def test_mlx_takes_every_call_of_the_kernels_of_a_type(
    type_: GgmlType, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    columns, nbytes = TYPE_LAYOUTS[type_]
    narrowing, kernels = Narrowing(mx.float16, Telling()), block_kernels(type_, Telling())
    stack = BlockMatrix(mx.zeros((3, 21, nbytes), mx.uint8), columns, narrowing, kernels)
    matrix = BlockMatrix(mx.zeros((21, nbytes), mx.uint8), columns, narrowing, kernels)

    def calls() -> list[object]:
        few = [matrix.times(mx.ones((rows, columns))) for rows in range(1, MOST_ROWS + 1)]
        experts = [
            stack.gathered(mx.ones((rows, 1, 1, columns)), mx.zeros((rows, 2), mx.int32)) for rows in (1, 9)
        ]
        return [
            *few,
            *experts,
            matrix.times(mx.ones((40, columns))),
            matrix.rows(mx.array([0, 1])),
            matrix.floats(),
        ]

    found = written(calls, tmp_path, capfd)
    name = type_.name.lower()
    assert len([key for key in found.texts if f"product_{name}" in key]) == MOST_ROWS + 1
    assert found.space(f"product_{name}", "sizes") == {"constant"}
    assert found.space(f"product_{name}", "experts") == {"constant", "device"}
    for array in ("blocks", "values", "x"):  # which pointers go into
        assert found.space(f"product_{name}", array) == {"device"}
    for array in ("blocks", "values"):
        assert found.space(f"look_up_{name}", array) == {"device"}
    assert found.space("narrow", "x") == {"device"}


@pytest.mark.parametrize("lengths", [(128, 128), (33, 20), (576, 512)])
def test_mlx_takes_the_calls_of_paged_attention(
    lengths: tuple[int, int], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    op = Attention("o", "q", "k", "v", 0, 2, 1, *lengths, 0.1)
    group = Group(np.zeros((1, 1), np.int64), np.zeros(1, np.int64), np.array([[9]]))
    seen = Seen(window_of(group, np.zeros((1, 1), np.int32), None))

    def call() -> object:
        cached = mx.zeros((1, 64, 1, lengths[0]), mx.float16), mx.zeros((1, 64, 1, lengths[1]), mx.float16)
        return [attention_kernels(Telling()).attend(op, mx.zeros((1, 2, lengths[0])), cached, seen, None)]

    found = written(call, tmp_path, capfd)
    assert found.space("attend", "keys") == found.space("attend", "values") == {"device"}
    assert any(f"<float16_t, {lengths[0]}, {lengths[1]}>" in text for text in found.texts.values())
