"""API keys: who may ask."""

import hashlib
import hmac
from collections.abc import Sequence

from starlette.requests import Request

from rase_api.errors import InvalidApiKey

SCHEME = "bearer "


class ApiKeys:
    """The keys of a server, as hashes; none at all lets everybody in."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._digests = [_digest(key.encode()) for key in keys]

    def check(self, request: Request) -> None:
        """Raise InvalidApiKey unless the request brings a key, as a bearer token or as x-api-key."""
        if not self._digests:
            return
        given = _given(request)
        if given is None:
            raise InvalidApiKey(
                "An API key is required: send 'Authorization: Bearer KEY' or 'x-api-key: KEY'."
            )
        digest = _digest(given.encode("latin-1"))  # the bytes that came
        # Every key is compared, so that the time tells nothing of which.
        if not sum([hmac.compare_digest(digest, known) for known in self._digests]):
            raise InvalidApiKey("Incorrect API key provided.")


def _given(request: Request) -> str | None:
    authorization = request.headers.get("authorization", "")
    if authorization[: len(SCHEME)].lower() == SCHEME:
        return authorization[len(SCHEME) :].strip(" \t")  # no other bytes: they may be parts of a letter
    return request.headers.get("x-api-key")


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
