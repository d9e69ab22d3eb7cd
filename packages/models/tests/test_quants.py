"""Dequantisation, against the independent implementation of the gguf package."""

from pathlib import Path

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray
from rase_core.errors import UnsupportedTensorType
from rase_models.gguf import TYPE_LAYOUTS, GgmlType, open_gguf
from rase_models.gguf.quants import BLOCK_DTYPES, dequantize

TYPES = [pytest.param(kind, id=kind.name) for kind in BLOCK_DTYPES]
QUANTISABLE = [GgmlType[name] for name in ["F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"]]


def reference(kind: GgmlType, data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
    rows = data.reshape(int(np.prod(shape[:-1])), -1)
    with np.errstate(all="ignore"):
        return gguf.quants.dequantize(rows, gguf.GGMLQuantizationType(kind)).reshape(shape)


def random_bytes(kind: GgmlType, blocks: int, seed: int) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, blocks * TYPE_LAYOUTS[kind][1], dtype=np.uint8)


def test_every_type_that_the_engine_runs_can_be_dequantised() -> None:
    theirs = {GgmlType(int(kind)) for kind in gguf.quants._type_traits}
    assert set(BLOCK_DTYPES) == theirs | {GgmlType.F32, GgmlType.F16}


@pytest.mark.parametrize("kind", TYPES)
def test_a_block_is_as_long_as_its_layout_says(kind: GgmlType) -> None:
    assert BLOCK_DTYPES[kind].itemsize == TYPE_LAYOUTS[kind][1]


@pytest.mark.parametrize("kind", TYPES)
def test_random_bytes_give_the_same_bits_as_the_reference(kind: GgmlType) -> None:
    shape = (3, 5, 4 * TYPE_LAYOUTS[kind][0])
    data = random_bytes(kind, 60, seed=int(kind))
    got, want = dequantize(kind, data, shape), reference(kind, data, shape)
    assert got.dtype == np.float32
    assert got.shape == shape
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("kind", QUANTISABLE, ids=lambda kind: kind.name)
def test_quantised_values_come_back_close_to_what_they_were(kind: GgmlType) -> None:
    values = np.random.default_rng(7).normal(size=(8, 256)).astype(np.float32)
    data = gguf.quants.quantize(values, gguf.GGMLQuantizationType(kind)).view(np.uint8)
    got = dequantize(kind, data, values.shape)
    np.testing.assert_array_equal(got, reference(kind, data, values.shape))
    assert np.abs(got - values).max() < 0.5


@pytest.mark.parametrize("name", ["Q2_K", "Q3_K_M", "Q4_K_M", "Q5_K_M", "Q6_K", "IQ4_NL", "IQ4_XS"])
def test_weights_quantised_by_llama_cpp_give_the_same_bits(name: str, oracle_path: Path) -> None:
    file = open_gguf(oracle_path / "quants" / f"llama-{name}.gguf")
    for weight in file.weights():
        if weight.info.name.startswith("blk.0.") and weight.info.type in BLOCK_DTYPES:
            got = dequantize(weight.info.type, weight.data, weight.info.shape)
            np.testing.assert_array_equal(got, reference(weight.info.type, weight.data, weight.info.shape))


def test_infinite_scales_do_not_warn() -> None:
    block = np.zeros(1, BLOCK_DTYPES[GgmlType.Q4_K])
    block["d"], block["dmin"] = np.inf, np.nan
    assert np.isnan(dequantize(GgmlType.Q4_K, block.view(np.uint8), (256,))).all()


def test_the_bytes_are_not_changed() -> None:
    data = random_bytes(GgmlType.Q6_K, 2, seed=1)
    data.flags.writeable = False
    dequantize(GgmlType.Q6_K, data, (2, 256))


def test_another_type_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedTensorType, match="Q8_K") as caught:
        dequantize(GgmlType.Q8_K, np.zeros(292, np.uint8), (256,))
    assert "Q4_K" in (caught.value.advice or "")
