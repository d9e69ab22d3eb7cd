"""Request bodies: bytes from a client that nobody knows, made into one plain JSON object or refused."""

import asyncio
import json
import re
from collections.abc import AsyncIterator

from rase_core.json_text import NestedTooDeeply, NotJson, NumberTooLarge, parse_json
from starlette.requests import Request

from rase_api.errors import BodyTimeout, BodyTooLarge, InvalidJson, UnsupportedMediaType, clipped

JSON_TYPE = "application/json"
DRAINED = 8  # times the limit that is read, and dropped, of a body that did not say how long it is
MOST_OBJECTS = 16_384
"""In a body: checking one takes time in which nobody else is served. A message of a conversation is one."""
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


async def read_object(request: Request, limit: int, patience: float) -> dict[str, object]:
    """Read a body of at most `limit` bytes as a JSON object; `patience` is the most seconds without a byte.

    Raises UnsupportedMediaType, BodyTooLarge, BodyTimeout or InvalidJson. The media type is demanded because
    a web page of another origin can send anything else to a local server without asking it first.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != JSON_TYPE:
        found = repr(clipped(media_type)) if media_type else "without a type"
        raise UnsupportedMediaType(f"The body must be sent as {JSON_TYPE}, but it came {found}.")
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        raise UnsupportedMediaType(
            f"The body must be sent as it is, but it came with the Content-Encoding {clipped(encoding)!r}."
        )
    return parse_object(await _read(request, limit, patience))


def parse_object(body: bytes) -> dict[str, object]:
    """Parse a JSON object, strictly: UTF-8, unique keys, finite numbers, no half of a surrogate pair.

    Raises InvalidJson, also for more than MOST_OBJECTS objects.
    """
    try:
        text = body.decode()
        value = parse_json(text, _Objects().take)
        if SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeError as error:
        raise InvalidJson("The body is not valid Unicode.") from error
    except NestedTooDeeply as error:
        raise InvalidJson("The body is nested too deeply.") from error
    except NumberTooLarge as error:
        raise InvalidJson("The body has a number that is too large.") from error
    except NotJson as error:
        raise InvalidJson(f"The body is not valid JSON: {error}.") from error
    if not isinstance(value, dict):
        raise InvalidJson("The body must be a JSON object.")
    return value


async def _read(request: Request, limit: int, patience: float) -> bytes:
    if _declared_length(request) > limit:  # refused unread: the server reads it away behind the answer
        raise _too_large(limit)
    body = bytearray()
    total = 0
    async for chunk in _chunks(request, patience):
        total += len(chunk)
        if total <= limit:
            body += chunk
        if total > limit * DRAINED:
            break
    if total > limit:
        raise _too_large(limit)
    return bytes(body)


def _declared_length(request: Request) -> int:
    """Return how long a body is going to be, 0 where nothing that can be read says so."""
    try:
        return int(request.headers.get("content-length", ""))
    except ValueError:
        return 0


def _too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"The body is longer than {limit} bytes.")


async def _chunks(request: Request, patience: float) -> AsyncIterator[bytes]:
    chunks = aiter(request.stream())
    while True:
        try:
            async with asyncio.timeout(patience):
                chunk = await anext(chunks)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise BodyTimeout(f"No more of the body came for {patience:g} seconds.") from None
        yield chunk


class _Objects:
    """Takes the objects of a body, up to MOST_OBJECTS of them."""

    def __init__(self) -> None:
        self._count = 0

    def take(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        """Return an object of these pairs."""
        self._count += 1
        if self._count > MOST_OBJECTS:
            raise InvalidJson(f"The body has more than {MOST_OBJECTS} objects.")
        result = dict(pairs)
        if len(result) != len(pairs):
            raise InvalidJson("The body has an object with the same key twice.")
        return result
