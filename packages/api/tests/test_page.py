"""The chat page, alone and in a headless Chromium that is spoken to over its DevTools pipe."""

import base64
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from rase_api import create_app, router
from rase_api.testing import ScriptedEngine, served

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe")
SECONDS = 30
# The browser expects its ends of the pipes as the files 3 and 4.
LAUNCHER = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
for end, number in zip(ends, (3, 4)):
    os.dup2(end, number)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Page:
    """One page of a browser."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = to_browser, from_browser
        self._rest = b""
        self._number = 0
        self.complaints: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session: str | None = None
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")

    def open(self, url: str) -> None:
        """Go to a page."""
        self._call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def evaluate(self, script: str) -> object:
        """Return the value of a script on the page."""
        result = self._call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"]))
        return result["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until a script is true."""
        deadline = time.monotonic() + SECONDS
        while not self.evaluate(condition):
            if time.monotonic() > deadline:
                raise TimeoutError(condition)
            time.sleep(0.02)

    def type(self, text: str) -> None:
        """Type a text into what has the focus, and press Enter."""
        self._call("Input.insertText", text=text)
        key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}
        for kind in ("keyDown", "keyUp"):
            self._call("Input.dispatchKeyEvent", type=kind, **key)

    def screenshot(self, path: Path) -> None:
        """Save what the page looks like as a PNG."""
        path.write_bytes(base64.b64decode(self._call("Page.captureScreenshot")["data"]))

    def _call(self, method: str, **params: object) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        session = getattr(self, "_session", None)
        if session is not None:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self._number:
            self._hear(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def _hear(self, event: dict[str, Any]) -> None:
        level = event.get("params", {}).get("entry", {}).get("level")
        if level in ("warning", "error") or event.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(event["params"]))

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            data = os.read(self._from, 1 << 16)
            if not data:
                raise RuntimeError("the browser has gone")
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer


@contextlib.contextmanager
def browsing(folder: Path) -> Iterator[Page]:
    """Run a browser that keeps its files in a folder; give its page, or skip the test without one."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None or os.name != "posix":
        pytest.skip("Chromium is not installed")
    to_browser, from_browser = os.pipe(), os.pipe()
    ours, theirs = (to_browser[1], from_browser[0]), (to_browser[0], from_browser[1])
    command = [
        sys.executable,
        "-c",
        LAUNCHER,
        *map(str, theirs),
        program,
        *FLAGS,
        f"--user-data-dir={folder}",
    ]
    with subprocess.Popen(command, pass_fds=theirs, stderr=subprocess.DEVNULL) as process:
        for end in theirs:
            os.close(end)
        try:
            yield Page(*ours)
        finally:
            process.kill()
            for end in ours:
                os.close(end)


def test_the_page_is_one_file_that_may_load_nothing_else(client: httpx.Client) -> None:
    response = client.get("/")
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    policy = response.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert not re.search(r"https?://|<link[^>]+stylesheet|<script [^>]*src|@import|innerHTML", response.text)
    assert client.head("/").status_code == 200


def test_the_page_needs_no_key_but_what_it_asks_for_does() -> None:
    with served(create_app(ScriptedEngine(), api_keys=["secret"])) as url:
        assert httpx.get(f"{url}/").status_code == 200
        assert "secret" not in httpx.get(f"{url}/").text


def test_an_application_that_mounts_the_router_keeps_its_own_front_page() -> None:
    host = FastAPI()
    host.include_router(router(ScriptedEngine()))
    with served(host) as url:
        assert httpx.get(f"{url}/").status_code == 404


LAST = "document.querySelector('article.assistant:last-of-type')?.textContent"
IDLE = "!document.getElementById('send').disabled"
STATUS = "document.getElementById('status').textContent"
READY = "document.getElementById('model').length > 0"


def test_a_browser_chats_on_the_page(tmp_path: Path) -> None:
    engine = ScriptedEngine("<b>Paris</b> & more.", models=("demo", "other"), context_length=4000)
    with browsing(tmp_path / "profile") as page, served(create_app(engine)) as url:
        page.open(url)
        page.wait(READY)
        assert page.evaluate("[...document.getElementById('model').options].map(o => o.value)") == [
            "demo",
            "other",
        ]
        page.evaluate("document.getElementById('model').value = 'other'")
        for number in (1, 2):
            page.evaluate("document.getElementById('message').focus()")
            page.type(f"Question {number}")
            page.wait(f"document.querySelectorAll('article').length === {2 * number} && {IDLE}")
        page.wait(f"{LAST} === '<b>Paris</b> & more.'")
        assert "20 tokens" in str(page.evaluate(STATUS))
        assert "tokens/s" in str(page.evaluate(STATUS))
        page.screenshot(tmp_path / "page.png")
        assert page.complaints == []
    assert engine.requests[1][0] == "user: Question 1\nassistant: <b>Paris</b> & more.\nuser: Question 2"


def test_a_browser_stops_an_answer_and_the_engine_with_it(tmp_path: Path) -> None:
    engine = ScriptedEngine("word " * 2000, context_length=100_000, before_token=lambda: time.sleep(0.01))
    with browsing(tmp_path / "profile") as page, served(create_app(engine)) as url:
        page.open(url)
        page.wait(READY)
        page.evaluate("document.getElementById('limit').value = 9000")
        page.evaluate("document.getElementById('message').focus()")
        page.type("Go on")
        page.wait(f"({LAST} ?? '').length > 20")
        page.evaluate("document.getElementById('stop').click()")
        page.wait(f"{IDLE} && {STATUS}.includes('stopped')")
        time.sleep(0.2)
        calls = len(engine.decoder.calls)
        time.sleep(0.2)
        assert len(engine.decoder.calls) == calls
        assert str(page.evaluate(LAST)).startswith("word word")


def test_a_browser_shows_what_the_server_refuses(tmp_path: Path) -> None:
    engine = ScriptedEngine(context_length=128)
    with (
        browsing(tmp_path / "profile") as page,
        served(create_app(engine, api_keys=["secret"])) as url,
    ):
        page.open(url)
        page.wait(f"{STATUS}.includes('API key')")
        page.evaluate("document.getElementById('key').focus()")
        page.type("secret")
        page.wait(READY)
        page.evaluate("document.getElementById('message').focus()")
        page.type("x" * 200)
        page.wait(f"document.querySelector('article.error')?.textContent.includes('128 tokens') && {IDLE}")


def test_a_browser_shows_all_routes_and_their_parameters(tmp_path: Path) -> None:
    app = create_app(ScriptedEngine(), api_keys=["secret"])
    with browsing(tmp_path / "profile") as page, served(app) as url:
        assert httpx.get(f"{url}/docs").status_code == 200
        page.open(f"{url}/docs")
        page.wait("document.getElementById('problem').textContent.includes('API key')")
        page.evaluate("document.getElementById('key').value = 'secret'")
        page.evaluate("document.getElementById('key').dispatchEvent(new Event('change'))")
        page.wait("document.querySelectorAll('summary').length > 40")
        text = str(page.evaluate("document.body.textContent"))
        page.evaluate("for (const box of document.querySelectorAll('details')) box.open = true")
        page.screenshot(tmp_path / "reference.png")
    for word in ("POST/v1/chat/completions", "GET/metrics", "top_logprobs", "ChatRequest", "model string"):
        assert word in text.replace("required", " ").replace("modelstring", "model string")
