"""`rase serve`"""

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from importlib.util import find_spec

import pytest
from rase_cli.commands import serve as serve_module

Run = Callable[..., subprocess.CompletedProcess[str]]

needs_server = pytest.mark.skipif(find_spec("rase_api") is None, reason="needs the extra serve")


@needs_server
@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT to a child")
def test_the_server_says_where_it_is_and_ends_with_ctrl_c(smol: str, home: dict[str, str]) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "rase_cli", "serve", "--port", "0"],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        env=home,
    )
    try:
        assert child.stderr is not None
        announced = child.stderr.readline()
        found = re.search(r"serving smol at (http://127\.0\.0\.1:\d+)/v1", announced)
        assert found, announced
        with urllib.request.urlopen(f"{found[1]}/v1/models", timeout=30) as response:
            assert [model["id"] for model in json.load(response)["data"]] == [smol]
    finally:
        child.send_signal(signal.SIGINT)
        out, errors = child.communicate(timeout=30)
    assert (child.returncode, out) == (0, "")
    assert "Traceback" not in errors


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
    monkeypatch.setattr(serve_module, "SERVER_PACKAGES", ("no_such_server",))
    done = rase("serve")
    assert done.returncode == 1
    assert 'pip install "rase-cli[serve]"' in done.stderr
