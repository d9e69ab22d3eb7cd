"""Blocks in another form, with the same values."""

import numpy as np
import pytest
from rase_models.backends.cpu.restating import RESTATED, restated
from rase_models.gguf import GgmlType
from rase_models.gguf.quants import dequantize
from rase_models.testing_blocks import random_blocks


@pytest.mark.parametrize("type_", [GgmlType.TQ1_0, GgmlType.TQ2_0], ids=lambda type_: type_.name)
def test_ternary_blocks_have_the_same_values_as_q2_k(type_: GgmlType) -> None:
    data = random_blocks(type_, (8, 512), seed=1, limit=0x7B)
    as_q2_k = dequantize(GgmlType.Q2_K, restated(type_, data), (8, 512))
    np.testing.assert_array_equal(as_q2_k, dequantize(type_, data, (8, 512)))


@pytest.mark.parametrize("type_", RESTATED, ids=lambda type_: type_.name)
def test_many_blocks_are_restated_as_each_of_them_is(type_: GgmlType) -> None:
    data = random_blocks(type_, (5000, 256), seed=2)
    whole = restated(type_, data).reshape(5000, -1)
    for row in (0, 4095, 4096, 4999):
        np.testing.assert_array_equal(whole[row], restated(type_, data[row]))


@pytest.mark.parametrize("type_", [GgmlType.Q4_K, GgmlType.F16, GgmlType.MXFP4], ids=lambda type_: type_.name)
def test_other_types_stay_as_they_are(type_: GgmlType) -> None:
    data = random_blocks(type_, (2, 256), seed=3)
    assert restated(type_, data) is data
