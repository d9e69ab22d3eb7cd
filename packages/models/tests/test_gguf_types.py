"""The tables of types, against those of the gguf package."""

import gguf
from rase_models.gguf import TYPE_LAYOUTS, GgmlType
from rase_models.gguf.types import ValueType


def test_tensor_types_have_ggml_s_numbers_and_layouts() -> None:
    for kind in GgmlType:
        theirs = gguf.GGMLQuantizationType(kind)
        assert theirs.name == kind.name
        assert gguf.GGML_QUANT_SIZES[theirs] == TYPE_LAYOUTS[kind]


def test_every_tensor_type_has_a_layout() -> None:
    assert set(TYPE_LAYOUTS) == set(GgmlType)


def test_value_types_are_those_of_the_specification() -> None:
    assert {kind.name: int(kind) for kind in ValueType} == {
        kind.name: int(kind) for kind in gguf.GGUFValueType
    }
