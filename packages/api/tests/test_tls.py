"""HTTPS by two files, and what is wrong with them said before anything listens."""

import os
import ssl
import threading
from pathlib import Path
from queue import SimpleQueue

import httpx
import pytest
from rase_api import serve
from rase_api.app import app_of
from rase_api.errors import InvalidSetting
from rase_api.listening import listen, url_of
from rase_api.server import Server
from rase_api.settings import Settings
from rase_api.state import ServerState
from rase_api.testing import ScriptedEngine
from rase_api.tls import tls_of

DATA = Path(__file__).parent / "data"
CERTIFICATE, KEY, OTHER = (
    DATA / name for name in ("localhost-cert.pem", "localhost-key.pem", "other-key.pem")
)
"""A certificate that vouches for itself and for localhost, its key, and one that is not its."""


def test_a_server_with_a_certificate_speaks_https_and_says_so() -> None:
    urls: SimpleQueue[str] = SimpleQueue()
    (listener,) = listen("127.0.0.1", 0)
    app = app_of(ServerState(ScriptedEngine(), Settings()))
    server = Server(app, on_ready=urls.put, grace=1, tls=tls_of(CERTIFICATE, KEY))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        url = urls.get(timeout=30)
        assert url == url_of(listener, "https")
        trusted = ssl.create_default_context(cafile=CERTIFICATE)
        with httpx.Client(base_url=url, verify=trusted) as client:
            body = {"model": "demo", "prompt": "Hi", "stream": True}
            assert client.post("/v1/completions", json=body).text.endswith("data: [DONE]\n\n")
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{url}/health")
        with pytest.raises(httpx.HTTPError):
            httpx.get(url_of(listener, "http") + "/health")
    finally:
        server.should_exit = True
        thread.join()


@pytest.mark.parametrize(
    ("certificate", "key", "named"),
    [
        (CERTIFICATE, None, "tls_key"),
        (None, KEY, "tls_cert"),
        (DATA / "nothing.pem", KEY, "nothing.pem: No such file"),
        (CERTIFICATE, DATA / "nothing.pem", "tls_key.*nothing.pem: No such file"),
        (DATA, KEY, "tls_cert"),
        (Path(__file__), KEY, "test_tls.py"),
        (KEY, CERTIFICATE, "tls_cert or tls_key"),
        (CERTIFICATE, OTHER, "other-key.pem.*MISMATCH"),
    ],
)
def test_files_that_do_not_serve_are_named_before_anything_starts(
    certificate: Path | None, key: Path | None, named: str
) -> None:
    with pytest.raises(InvalidSetting, match=named):
        serve(
            ScriptedEngine(),
            port=0,
            tls_cert=certificate,
            tls_key=key,
            on_ready=lambda url: pytest.fail("it started"),
        )


@pytest.mark.skipif(os.name == "nt", reason="has no named pipes in folders")
def test_a_pipe_and_an_impossible_name_are_no_certificates(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for certificate in (tmp_path / "pipe", Path("a\0b")):
        with pytest.raises(InvalidSetting, match="tls_cert"):
            tls_of(certificate, KEY)
