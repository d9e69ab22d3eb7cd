"""`rase ps` and `rase stop`, against a server of its own."""

import http.server
import json
import socket
import subprocess
import threading
import urllib.request
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import pytest
from rase_cli.running_server import RunningServer, ServerNotRunning
from rase_core.errors import EngineError

Run = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.skipif(find_spec("rase_api") is None, reason="needs the extra serve")


@pytest.fixture
def url(smol: str, home: dict[str, str]) -> Iterator[str]:
    """The address of a server with a real model and a key."""
    from rase_api import create_app
    from rase_api.testing import served
    from rase_models.engine import Engine

    with (
        Engine(home["RASE_STORE"], context_length=256, keep_alive=1000) as engine,
        served(create_app(engine, api_keys=["secret"])) as found,
    ):
        engine.add_alias(smol, "chat:latest")
        yield found


def ask(url: str, **body: object) -> dict[str, object]:
    content = json.dumps({"model": "smol", "stream": False} | body).encode()
    headers = {"Authorization": "Bearer secret", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/api/generate", content, headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        answer: dict[str, object] = json.load(response)
    return answer


def test_models_in_memory_are_listed_and_let_go_of(rase: Run, url: str) -> None:
    server = ("--url", url, "--api-key", "secret")
    done = rase("ps", *server)
    assert (done.returncode, done.stdout) == (0, "") and "no model is in memory" in done.stderr
    assert ask(url, prompt="Hi", options={"num_predict": 2}, keep_alive="10m")["done"] is True
    name, size, context, until, limit = rase("ps", *server).stdout.strip().split("\t")
    assert 90_000_000 < int(size) < 400_000_000 < int(limit)  # a quarter of the machine's is for its keys
    assert (name, context) == ("smol", "256") and int(size) > 90_000_000 and until.endswith("Z")
    (model,) = json.loads(rase("ps", *server, "--json").stdout)["models"]
    assert (model["name"], model["size_limit"]) == ("smol", int(limit))
    ask(url, keep_alive=-1)
    assert rase("ps", *server).stdout.split("\t")[3] == "never"
    done = rase("stop", "chat:latest", *server)
    assert (done.returncode, done.stdout) == (0, "") and "chat:latest leaves" in done.stderr
    assert rase("ps", *server).stdout == ""
    for name in ("chat:latest", "smol"):
        done = rase("stop", name, *server)
        assert done.returncode == 0 and f"{name} is not in the memory of {url}" in done.stderr


def test_a_model_that_is_registered_no_more_can_be_let_go_of(rase: Run, url: str) -> None:
    server = ("--url", url, "--api-key", "secret")
    ask(url)
    assert rase("model", "rm", "smol").returncode == 0
    assert rase("ps", *server).stdout.startswith("smol\t")
    done = rase("stop", "smol", *server)
    assert done.returncode == 0 and "smol leaves" in done.stderr
    assert rase("ps", *server).stdout == ""
    done = rase("stop", "smol", *server)
    assert done.returncode == 1 and "answers 404: model 'smol' is not registered" in done.stderr


@pytest.mark.parametrize("name", ["smol", "smol:latest"])
def test_a_model_whose_manifest_is_broken_can_be_let_go_of(
    rase: Run, url: str, home: dict[str, str], name: str
) -> None:
    ask(url)
    (Path(home["RASE_STORE"]) / "manifests" / "smol.toml").write_text("nonsense")
    assert ask(url, model=name, keep_alive=0)["done_reason"] == "unload"
    assert rase("ps", "--url", url, "--api-key", "secret").stdout == ""


def test_a_request_that_keeps_nothing_alive_lets_the_model_go(rase: Run, url: str) -> None:
    ask(url, prompt="Hi", options={"num_predict": 2}, keep_alive=0)
    for _ in range(200):
        if not rase("ps", "--url", url, RASE_API_KEY="secret").stdout:
            return
    pytest.fail("it is still there")


def test_what_a_server_refuses_is_told(rase: Run, url: str) -> None:
    done = rase("ps", "--url", url)
    assert done.returncode == 1 and "401" in done.stderr and "--api-key" in done.stderr
    for name in ("nobody", "no body/../x?y#z%", "模型", "-"):
        done = rase("stop", "--url", url, "--api-key", "secret", "--", name)
        assert done.returncode == 1 and "Traceback" not in done.stderr
        assert f"answers 404: model {name!r} is not registered" in done.stderr
    for name in ("", "\udcff"):
        assert rase("stop", name, "--url", url, "--api-key", "secret").returncode in (1, 2)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9", "127.0.0.1:9", "http://[", "http://no.such.host.invalid"]
)
@pytest.mark.parametrize("command", [["ps"], ["stop", "smol"]])
def test_no_server_is_a_clear_error(rase: Run, command: list[str], url: str) -> None:
    done = rase(*command, "--url", url)
    assert done.returncode == 5
    assert url in done.stderr and "rase serve" in done.stderr and "Traceback" not in done.stderr


class _Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<html>hello</html>")

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def test_another_server_is_a_clear_error(rase: Run) -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), _Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        done = rase("ps", "--url", f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
    assert done.returncode == 5 and "Traceback" not in done.stderr


class _Elsewhere(_Page):
    """Sends whoever asks to /other, and notes the keys that come there."""

    keys: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        if self.path == "/other":
            self.keys.append(self.headers["Authorization"])
        self.send_response(200 if self.path == "/other" else 307)
        self.send_header("Location", "/other")
        self.end_headers()


class _Nested(_Page):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"[" * 99_999)


def test_a_server_that_is_not_there_is_said_in_words() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(ServerNotRunning, match=r"no server answers at .*: ") as failure:
            RunningServer(url, None).models()
    assert "Errno" not in failure.value.message and "WinError" not in failure.value.message


@pytest.mark.parametrize(("page", "named"), [(_Elsewhere, "answers 307"), (_Nested, "no server answers")])
def test_a_server_that_sends_elsewhere_or_nests_without_end_is_a_clear_error(
    page: type[_Page], named: str
) -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(EngineError, match=named):
            RunningServer(f"http://127.0.0.1:{server.server_port}", "secret").models()
        server.shutdown()
    assert _Elsewhere.keys == []


def test_a_file_is_no_server(tmp_path: Path) -> None:
    (tmp_path / "api").mkdir()
    (tmp_path / "api" / "ps").write_text('{"models": []}')
    with pytest.raises(ServerNotRunning, match="unknown url type"):
        RunningServer(tmp_path.as_uri(), "secret").models()
