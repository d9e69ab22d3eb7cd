"""The forms of keys and values by type."""

from collections.abc import Mapping

from rase_models.backends.cpu.formats.kv_bytes import ByteKv
from rase_models.backends.cpu.formats.kv_floats import FloatKv
from rase_models.backends.cpu.formats.kv_form import KvForm
from rase_models.kv_type import KvType

KV_FORMS: Mapping[KvType, KvForm] = {
    KvType.F32: FloatKv(KvType.F32, 4, 3.0e38),
    KvType.F16: FloatKv(KvType.F16, 2, 65504.0),
    KvType.Q8_0: ByteKv(),
}
"""The forms by type."""
