"""What goes wrong with the hub, in the words of rase."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from json import JSONDecodeError
from typing import cast

from rase_core.errors import HubError

_GATED = (
    "{repo} is gated",
    "accept its terms at https://huggingface.co/{repo}, then set HF_TOKEN to a token of that account",
)
_NO_REPO = (
    "Hugging Face has no repository {repo!r}, or it is private",
    "check the name (owner/name); for a private one set HF_TOKEN",
)
_NO_REVISION = (
    "{repo} has no such revision",
    "leave the revision out, or name a branch, a tag or a commit of it",
)
_NO_NAME = ("{repo!r} is no name of a repository", "give it as owner/name")
_OFFLINE = ("{repo}: offline mode is on", "unset HF_HUB_OFFLINE to download")
_NO_NETWORK = (
    "Hugging Face cannot be reached: {error}",
    "check the network; set HF_HUB_OFFLINE=1 to use what was downloaded before",
)
_NOT_ASKED = (
    "Hugging Face cannot be asked: {error}",
    "check what the environment says: HF_TOKEN, HF_ENDPOINT, http_proxy, https_proxy, SSL_CERT_FILE",
)
_STATUS = ("Hugging Face refused {repo}: {status}", "check HF_TOKEN if one is set, or try again later")
_DISK_FULL = ("the disk is full: {error}", "free some space, or set HF_HOME to a folder on another disk")
_NO_CACHE = ("the cache cannot be used: {error}", "set HF_HOME to a folder that you can read and write")


def transport_error() -> type[Exception]:
    """Return the base class of the HTTP library's errors: httpx, or httpx2 from huggingface_hub 2 on."""
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]  # imported there for its own

    return HTTPError


def _invalid_url() -> type[Exception]:
    """Return that library's error for an address that is none, such as a proxy's."""
    library = import_module(transport_error().__module__.partition(".")[0])
    return cast("type[Exception]", library.InvalidURL)


@contextmanager
def hub_errors(repo: str) -> Iterator[None]:
    """Turn what huggingface_hub, the network and the disk raise into HubError; to hold no code of callers."""
    try:
        yield
    except (transport_error(), _invalid_url(), OSError, ValueError) as error:
        message, advice = _words(error)
        values = {"repo": repo, "error": str(error) or type(error).__name__, "status": _status(error)}
        raise HubError(message.format(**values), advice.format(**values)) from error


def _words(error: BaseException) -> tuple[str, str]:
    from huggingface_hub import errors

    table: tuple[tuple[type[BaseException], tuple[str, str]], ...] = (
        (errors.GatedRepoError, _GATED),  # before the class that it belongs to
        (errors.RepositoryNotFoundError, _NO_REPO),
        (errors.RevisionNotFoundError, _NO_REVISION),
        (errors.HFValidationError, _NO_NAME),
        (errors.OfflineModeIsEnabled, _OFFLINE),
        (errors.LocalEntryNotFoundError, _NO_NETWORK),
        (errors.HfHubHTTPError, _STATUS),
    )
    for kind, words in table:
        if isinstance(error, kind):
            return words
    if isinstance(error, FileNotFoundError) and error.filename is None:
        return _NOT_ASKED  # the certificates
    if isinstance(error, OSError) and error.errno is not None:
        return _DISK_FULL if error.errno in (errno.ENOSPC, errno.EDQUOT) else _NO_CACHE
    # Some take odd settings for values.
    is_setting = isinstance(error, (ValueError, _invalid_url())) and not isinstance(error, JSONDecodeError)
    return _NOT_ASKED if is_setting else _NO_NETWORK


def _status(error: BaseException) -> str:
    response = getattr(error, "response", None)
    code = getattr(response, "status_code", None)
    reason = getattr(error, "server_message", None) or getattr(response, "reason_phrase", "")
    return f"status {code} {reason}".strip()
