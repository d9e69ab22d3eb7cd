"""The types in which keys and values can be kept."""

from enum import StrEnum

from rase_core.errors import InvalidParameter


class KvType(StrEnum):
    """What a value of a key or of a value takes: 32 bits, 16, or 8 and a scale for every 32 of them."""

    F32 = "f32"
    F16 = "f16"
    Q8_0 = "q8_0"

    @classmethod
    def named(cls, name: str) -> "KvType":
        """Return the type of a name; InvalidParameter for others."""
        if name not in list(cls):
            raise InvalidParameter("kv_type", name, f"one of {', '.join(cls)}")
        return cls(name)
