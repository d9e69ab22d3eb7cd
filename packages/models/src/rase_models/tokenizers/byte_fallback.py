"""What becomes of characters that have no token."""

from collections.abc import Sequence

from rase_core.errors import UnencodableText


def byte_tokens(characters: str, byte_ids: Sequence[int], unknown: int | None) -> list[int]:
    """Return the tokens of the bytes of characters, or the unknown token where a byte has none.

    `byte_ids` has the token of each byte, -1 where there is none. Raises UnencodableText where there is no
    unknown token either.
    """
    ids = [byte_ids[byte] for byte in characters.encode()]
    if -1 not in ids:
        return ids
    if unknown is None:
        raise UnencodableText(f"{characters!r} or its bytes")
    return [unknown]
