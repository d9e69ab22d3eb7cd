"""Where the keys and values of each layer lie in the blocks of the KV cache."""

from dataclasses import dataclass

from rase_models.backends.cpu.formats.kv_forms import KV_FORMS
from rase_models.kv_type import KvType
from rase_models.program import Program


@dataclass(frozen=True, slots=True)
class KvPlace:
    """Where a layer is in the blocks of its group: at an offset, so many bytes for each KV head."""

    group: int
    offset: int
    head_nbytes: int
    keys_nbytes: int


@dataclass(frozen=True, slots=True)
class KvPlaces:
    """The places of all layers, and the size of a block of each group."""

    kv_type: KvType
    layers: tuple[KvPlace, ...]
    block_nbytes: tuple[int, ...]

    @classmethod
    def of(cls, program: Program, kv_type: KvType) -> "KvPlaces":
        """Lay out the layers of a program, one after the other in each group."""
        form, places, sizes = KV_FORMS[kv_type], {}, []
        for index, group in enumerate(program.kv_groups):
            offset = 0
            for number in group.layers:
                layer = program.kv_layers[number]
                keys = form.keys_nbytes(layer.key_length)
                head = keys + form.values_nbytes(layer.value_length)
                places[number] = KvPlace(index, offset, head, keys)
                offset += layer.head_count_kv * head
            sizes.append(offset)
        ordered = tuple(places[number] for number in range(len(places)))
        return cls(kv_type, ordered, tuple(sizes))
