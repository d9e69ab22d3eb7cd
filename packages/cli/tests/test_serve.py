"""`rase serve`"""

import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from email.message import Message
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from rase_cli.commands import serve as serve_module

Run = Callable[..., subprocess.CompletedProcess[str]]

has_signals = pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT to a child")
needs_server = pytest.mark.skipif(find_spec("rase_api") is None, reason="needs the extra serve")


@contextlib.contextmanager
def serving(home: dict[str, str], *options: str) -> Iterator[tuple[str, list[str]]]:
    """Run `rase serve` until the end of the block; give its URL, and the lines of stderr once it is over."""
    child = subprocess.Popen(
        [sys.executable, "-m", "rase_cli", "serve", "--port", "0", *options],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        env=home,
    )
    lines: list[str] = []
    try:
        assert child.stderr is not None
        while not (found := re.search(r"serving .+ at (http://\S+)/v1", "".join(lines))):
            line = child.stderr.readline()
            assert line, lines
            lines.append(line)
        yield found[1], lines
    finally:
        child.send_signal(signal.SIGINT)
        out, errors = child.communicate(timeout=30)
        lines += errors.splitlines(keepends=True)
    assert (child.returncode, out) == (0, "")
    assert not any("Traceback" in line for line in lines)


def get(url: str, **headers: str) -> tuple[int, Any, "Message[str, str]"]:
    """Ask; give the status, the answer and its headers."""
    asked = urllib.request.Request(
        url, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )
    try:
        with urllib.request.urlopen(asked, timeout=30) as response:
            return response.status, json.load(response), response.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error), error.headers


@needs_server
@has_signals
def test_the_server_says_where_it_is_logs_requests_and_ends_with_ctrl_c(
    smol: str, home: dict[str, str]
) -> None:
    with serving(home) as (url, lines):
        assert url.startswith("http://127.0.0.1:")
        status, answer, _ = get(f"{url}/v1/models", x_request_id="abc")
        assert (status, [model["id"] for model in answer["data"]]) == (200, [smol])
    assert lines[0].startswith("serving smol at ")
    assert any(re.search(r"id=abc .*path=/v1/models status=200", line) for line in lines)


@needs_server
@has_signals
def test_every_setting_of_the_server_is_an_option(home: dict[str, str], tmp_path: Path) -> None:
    keys = tmp_path / "keys.txt"
    keys.write_text("\nof-the-file\n", "utf-8")
    options = (
        "--host",
        "0.0.0.0",
        "--api-key",
        "typed",
        "--api-key-file",
        str(keys),
        "--json-log",
        "--grace",
        "1",
    )
    pages = (
        "--cors-origin",
        "https://page.example",
        "--allowed-host",
        "box.example",
        "--max-body-size",
        "1kB",
    )
    with serving(home, *options, *pages, "--request-timeout", "9.5") as (url, lines):
        models = f"{url}/v1/models"
        assert get(models)[0] == 401
        for key in ("typed", "of-the-file"):
            assert get(models, x_api_key=key, host="box.example")[0] == 200
        assert get(models, x_api_key="typed", host="other.example")[0] == 403
        headers = get(models, x_api_key="typed", origin="https://page.example")[2]
        assert headers["access-control-allow-origin"] == "https://page.example"
    logged = [json.loads(line) for line in lines if line.startswith("{")]
    assert [line["status"] for line in logged] == [401, 200, 200, 403, 200]
    assert not any("API key" in line for line in lines)


@needs_server
@has_signals
def test_keys_come_from_the_environment_and_their_absence_is_warned_of(home: dict[str, str]) -> None:
    with serving(home | {"RASE_API_KEY": "one two"}, "--log-level", "warning") as (url, lines):
        assert get(f"{url}/v1/models", authorization="Bearer two")[0] == 200
        assert get(f"{url}/v1/models")[0] == 401
    assert not any("status=" in line for line in lines)
    with serving(home, "--host", "0.0.0.0") as (_, lines):
        pass
    assert any("whoever reaches 0.0.0.0 may use this server" in line for line in lines)


@needs_server
@has_signals
@pytest.mark.parametrize(
    ("option", "length", "warnings"), [("--context-length", "999999", 1), ("--max-context", "64", 0)]
)
def test_more_context_than_a_model_has_is_warned_of_once(
    smol: str, home: dict[str, str], option: str, length: str, warnings: int
) -> None:
    with serving(home, option, length, "--preload", smol) as (url, lines):
        while get(f"{url}/ready")[0] != 200:
            time.sleep(0.05)
    told = [line for line in lines if "context" in line]
    assert len(told) == warnings
    assert all(f"{smol} has a context of 8192 tokens, not the {length}" in line for line in told)


@pytest.mark.parametrize("command", [("serve",), ("model", "inspect")])
def test_the_context_has_two_names(rase: Run, command: tuple[str, ...]) -> None:
    assert "--context-length, --max-context TOKENS" in rase(*command, "--help").stdout


def test_the_context_is_confined_by_either_name(rase: Run, smol: str) -> None:
    plans = [
        rase("model", "inspect", smol, "--estimate", name, "512", "--json").stdout
        for name in ("--context-length", "--max-context")
    ]
    assert plans[0] == plans[1] and '"context_length": 512' in plans[0]


@pytest.mark.parametrize("option", ["--grace", "--port", "--keep-alive", "--kv-memory", "--max-memory"])
def test_numbers_beyond_all_bounds_are_wrong_usage(rase: Run, option: str) -> None:
    refused = rase("serve", option, "9" * 400)
    assert refused.returncode == 2 and f"Invalid value for '{option}'" in refused.stderr


def test_every_setting_of_the_server_has_an_option() -> None:
    settings = pytest.importorskip("rase_api.settings")
    names = {parameter.name for parameter in serve_module.serve.params}
    assert set(settings.Options.__annotations__) - names == {"keep_alive_seconds", "body_seconds"}


@pytest.mark.parametrize(
    "options",
    [
        ("--request-timeout", "0"),
        ("--max-body-size", "0"),
        ("--grace", "-1"),
        ("--log-level", "loud"),
        ("--api-key-file", "no-such-file"),
    ],
)
def test_a_setting_that_cannot_be_is_wrong_usage(rase: Run, options: tuple[str, str]) -> None:
    done = rase("serve", *options)
    assert done.returncode == 2
    assert options[0] in done.stderr


@needs_server
def test_a_file_without_keys_is_wrong_usage(rase: Run, tmp_path: Path) -> None:
    empty = tmp_path / "keys.txt"
    empty.write_text("\n \n", "utf-8")
    done = rase("serve", "--api-key-file", str(empty))
    assert done.returncode == 2
    assert "has no key" in done.stderr


@pytest.mark.parametrize("blanks", ["", "  ", "\t"])
@pytest.mark.parametrize("command", [("serve",), ("ps",), ("stop", "demo")])
def test_a_key_of_blanks_is_wrong_usage(rase: Run, command: tuple[str, ...], blanks: str) -> None:
    for done in (rase(*command, "--api-key", blanks), rase(*command, RASE_API_KEY=blanks)):
        assert done.returncode == 2
        assert "Invalid value for '--api-key'" in done.stderr and "blanks are no key" in done.stderr


@needs_server
def test_a_port_in_use_is_a_named_error(rase: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = rase("serve", "--port", str(port))
    assert done.returncode == 1
    assert str(port) in done.stderr
    assert "in use" in done.stderr


@pytest.mark.parametrize("port", ["-1", "65536", "http"])
def test_a_port_that_is_none_is_wrong_usage(rase: Run, port: str) -> None:
    assert rase("serve", "--port", port).returncode == 2


def test_without_the_server_the_extra_to_install_is_named(rase: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)  # as if it were not installed
    done = rase("serve")
    assert done.returncode == 1
    assert 'pip install "rase-cli[serve]"' in done.stderr


@needs_server
@pytest.mark.parametrize(
    ("options", "code", "reason"),
    [
        (("--preload", "smol", "--max-memory", "50MB"), 1, "more than the 50 MB that models may take"),
        (("--preload", "nobody"), 3, "nobody"),
        (("--keep-alive", "soon"), 2, "--keep-alive"),
        (("--max-memory", "much"), 2, "--max-memory"),
        (("--workers", "2"), 1, "one process must own a model"),
    ],
)
def test_a_server_that_cannot_be_as_it_is_told_says_why(
    rase_process: Run, smol: str, options: tuple[str, ...], code: int, reason: str
) -> None:
    done = rase_process("serve", "--port", "0", *options)
    assert done.returncode == code and reason in done.stderr and "Traceback" not in done.stderr
