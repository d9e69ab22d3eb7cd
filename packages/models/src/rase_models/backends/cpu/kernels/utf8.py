"""Characters in UTF-8."""

from rase_models.backends.cpu.simd import compiled
from rase_models.backends.cpu.simd.text import load_u8


@compiled
def width_of(first: int) -> int:
    """Return the bytes of a character by its first one."""
    return 1 if first < 0x80 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4


@compiled
def code_point(address: int) -> int:
    """Return the code point of the character at an address."""
    first = load_u8(address)
    if first < 0x80:
        return int(first)
    width = width_of(first)
    code = first & (0x7F >> width)
    for at in range(1, width):
        code = code << 6 | load_u8(address + at) & 0x3F
    return int(code)
