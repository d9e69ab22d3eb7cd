"""The types in which keys and values can be kept."""

from collections.abc import Sequence
from enum import StrEnum

from rase_core.errors import InvalidParameter


class KvType(StrEnum):
    """What a value of a key or of a value takes: 32 bits, 16, or 8 and a scale for every 32 of them."""

    F32 = "f32"
    F16 = "f16"
    Q8_0 = "q8_0"


def choose_kv_type(wanted: KvType | str | None, usable: Sequence[KvType]) -> KvType:
    """Return the type that is wanted, else the first usable one; InvalidParameter for others."""
    if wanted is None:
        return usable[0]
    if wanted not in usable:
        raise InvalidParameter("kv_type", str(wanted), f"one of {', '.join(usable)} on this device")
    return KvType(wanted)
