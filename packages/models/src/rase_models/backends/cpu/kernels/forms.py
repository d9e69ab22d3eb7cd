"""Packed weight types by name, as kernels' parameters name them."""

from functools import cache

from rase_models.backends.cpu.packing import PACKED_FORMATS, WeightFormat


@cache
def form_named(name: str) -> WeightFormat:
    """Return a packed weight type."""
    return {form.name: form for forms in PACKED_FORMATS.values() for form in forms}[name]
