"""A server that runs already, asked over HTTP."""

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping

import click
from rase_core.errors import EngineError

from rase_cli.api_key import VARIABLE, ApiKey, KeyOption
from rase_cli.given_text import given_text
from rase_cli.settings import Body, Option
from rase_cli.system_errors import reason_of

DEFAULT_URL = "http://127.0.0.1:8080"
_SECONDS = 30.0
_MOST_BYTES = 16 << 20

URL: Option = click.option(
    "--url",
    type=given_text,
    default=DEFAULT_URL,
    show_default=True,
    envvar="RASE_URL",
    metavar="URL",
    help="Where the server is. [env: RASE_URL]",
)
KEY: Option = click.option(
    "--api-key",
    type=ApiKey(),
    envvar=VARIABLE,
    cls=KeyOption,
    metavar="KEY",
    help="Its key, where it asks for one; the first of the variable. [env: RASE_API_KEY]",
)


class ServerNotRunning(EngineError):
    """No server answers at an address: why not."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(
            f"no server answers at {url}: {reason}", "start one with `rase serve`, or say where it is: --url"
        )
        self.url, self.reason = url, reason


class ServerRefused(EngineError):
    """A server does not do what it is asked: its status and words."""

    def __init__(self, url: str, status: int, message: str) -> None:
        advice = "give its key with --api-key or RASE_API_KEY" if status == 401 else None
        super().__init__(f"{url} answers {status}: {message}", advice)
        self.url, self.status = url, status


def of_server(command: Body) -> Body:
    """Give a command the options that say which server it is for."""
    return URL(KEY(command))


class RunningServer:
    """A server of rase at a URL, with one of its keys."""

    def __init__(self, url: str, api_key: str | None) -> None:
        self._url = url.rstrip("/").removesuffix("/v1")
        keys = (api_key or "").split()
        self._headers = {"Authorization": f"Bearer {keys[0]}"} if keys else {}

    def models(self) -> list[dict[str, object]]:
        """Return the models in memory, as Ollama's /api/ps describes them. Raises as `unload` does."""
        found = self._ask("/api/ps").get("models")
        if not isinstance(found, list) or not all(isinstance(model, dict) for model in found):
            raise ServerNotRunning(self._url, "what answers is no server of rase")
        return found

    def unload(self, model: str) -> bool:
        """Let it let go of a model, and tell whether it had it. Raises ServerNotRunning, ServerRefused."""
        names = [loaded.get("name") for loaded in self.models()]
        had = model in names or self._id_of(model) in names  # one in memory may be registered no more
        self._ask("/api/generate", {"model": model, "keep_alive": 0, "stream": False})
        return had

    def _id_of(self, model: str) -> object:
        return self._ask(f"/v1/models/{urllib.parse.quote(model, errors='surrogatepass')}").get("id")

    def _ask(self, path: str, body: Mapping[str, object] | None = None) -> dict[str, object]:
        content = None if body is None else json.dumps(body).encode()
        headers = {**self._headers, "Content-Type": "application/json"}
        try:
            request = urllib.request.Request(f"{self._url}{path}", content, headers)
            with _opener().open(request, timeout=_SECONDS) as response:
                answer = json.loads(response.read(_MOST_BYTES))
        except urllib.error.HTTPError as error:
            with error:
                raise ServerRefused(self._url, error.code, _message(error)) from error
        except (OSError, http.client.HTTPException, ValueError, RecursionError) as error:
            raise ServerNotRunning(self._url, _reason(error)) from error
        return answer if isinstance(answer, dict) else {}


def _reason(error: Exception) -> str:
    """Return why nothing answers; what urllib says of the system's errors begins with their numbers."""
    cause = getattr(error, "reason", error)
    return (reason_of(cause) if isinstance(cause, OSError) else str(cause)) or "no answer"


def _opener() -> urllib.request.OpenerDirector:
    """Return what asks a server itself: no proxy, no file, and nobody that it redirects to gets the key."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPErrorProcessor,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.UnknownHandler,
    ):
        opener.add_handler(handler())
    return opener


def _message(error: urllib.error.HTTPError) -> str:
    """Return the words of a refusal, in Ollama's envelope or OpenAI's."""
    try:
        told = json.loads(error.read(_MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return str(error.reason)
    for key in ("error", "message"):
        told = told.get(key, error.reason) if isinstance(told, dict) else told
    return told if isinstance(told, str) else str(error.reason)
