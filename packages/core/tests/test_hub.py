"""Pulls from a small server on this machine that answers as the hub does."""

import errno
import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from rase_core.download import download_file
from rase_core.errors import Cancelled, HubError
from rase_core.hub import Hub
from rase_core.hub_errors import hub_errors
from rase_core.lock import FileLock
from rase_core.progress import ProgressEvent, ProgressPhase

COMMIT = "0123456789abcdef0123456789abcdef01234567"
BRANCH_COMMIT = "f" * 40


@dataclass
class Repository:
    files: dict[str, bytes]
    is_gated: bool = False
    wrong_hashes: set[str] = field(default_factory=set)

    def sha256(self, name: str) -> str:
        content = b"another" if name in self.wrong_hashes else self.files[name]
        return hashlib.sha256(content).hexdigest()

    def siblings(self) -> list[dict[str, object]]:
        return [self._sibling(name, content) for name, content in self.files.items()]

    def _sibling(self, name: str, content: bytes) -> dict[str, object]:
        entry: dict[str, object] = {"rfilename": name, "size": len(content), "blobId": "a" * 40}
        if name.endswith(".gguf"):
            entry["lfs"] = {"sha256": self.sha256(name), "size": len(content), "pointerSize": 130}
        return entry


class LocalHub(ThreadingHTTPServer):
    """Serves repositories; `cut_after` breaks each download off after so many bytes, that many times.

    `busy` has the statuses of the next answers to downloads; a hub that `moves` gets another commit on its
    main branch whenever it was asked for the files of one.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.repositories: dict[str, Repository] = {}
        self.requests: list[tuple[str, str, str | None, str | None]] = []
        self.cut_after: int | None = None
        self.cuts = 0
        self.ignores_ranges = False
        self.status = 200
        self.busy: list[int] = []
        self.moves = False
        self.is_captive = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def ranges(self) -> list[str | None]:
        return [span for method, path, span, _ in self.requests if method == "GET" and "/resolve/" in path]


class _Answer(BaseHTTPRequestHandler):
    server: LocalHub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *arguments: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._route()

    def do_GET(self) -> None:
        self._route()

    def _route(self) -> None:
        path = unquote(urlsplit(self.path).path)
        headers = self.headers.get("Range"), self.headers.get("Authorization")
        self.server.requests.append((self.command, path, *headers))
        parts = path.strip("/").split("/")
        if self.server.is_captive:
            self._send(b"<html>please log in", {})
        elif self.server.status != 200:
            self._error(self.server.status, "")
        elif parts[:2] == ["api", "models"]:
            self._info("/".join(parts[2:4]), parts[5] if len(parts) > 5 else "main")
        elif self.server.busy and self.command == "GET":
            self._error(self.server.busy.pop(0), "")
        else:
            self._file("/".join(parts[:2]), parts[3], "/".join(parts[4:]))

    def _info(self, name: str, revision: str) -> None:
        repository = self.server.repositories.get(name)
        if repository is None:
            self._error(401, "RepoNotFound")
        elif revision not in ("main", "branch", COMMIT):
            self._error(404, "RevisionNotFound")
        else:
            sha = BRANCH_COMMIT if revision == "branch" else COMMIT
            self._send(json.dumps({"id": name, "sha": sha, "siblings": repository.siblings()}).encode(), {})

    def _file(self, name: str, revision: str, file: str) -> None:
        repository = self.server.repositories[name]
        if repository.is_gated:
            self._error(403, "GatedRepo")
            return
        if file not in repository.files:
            self._error(404, "EntryNotFound")
            return
        content = repository.files[file]
        etag = repository.sha256(file) if file.endswith(".gguf") else hashlib.sha1(content).hexdigest()
        has_moved = self.server.moves and revision == "main"
        commit = BRANCH_COMMIT if has_moved or revision in ("branch", BRANCH_COMMIT) else COMMIT
        self._send(content, {"X-Repo-Commit": commit, "ETag": f'"{etag}"', "Accept-Ranges": "bytes"})

    def _error(self, status: int, code: str) -> None:
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("X-Error-Message", "no")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send(self, content: bytes, headers: dict[str, str]) -> None:
        span = self.headers.get("Range")
        start = int(span.removeprefix("bytes=").rstrip("-")) if span and not self.server.ignores_ranges else 0
        self.send_response(206 if start else 200)
        body = content[start:]
        for key, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self._body(body)

    def _body(self, body: bytes) -> None:
        cut = self.server.cut_after
        if cut is not None and self.server.cuts and "/resolve/" in self.path:
            self.server.cuts -= 1
            self.wfile.write(body[:cut])
            self.close_connection = True
        else:
            self.wfile.write(body)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHub]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with LocalHub() as hub:
        thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        hub.repositories["owner/name"] = Repository(
            {
                "README.md": b"# hello",
                "tokenizer.json": b"{}",
                "m-Q4_K_M.gguf": b"GGUF" + bytes(300_000),
                "m-Q8_0.gguf": b"GGUF8",
                "mmproj-m-Q8_0.gguf": b"GGUFp",
                "big/m-F16-00001-of-00002.gguf": b"GGUF1",
                "big/m-F16-00002-of-00002.gguf": b"GGUF2",
            }
        )
        yield hub
        hub.shutdown()
        thread.join()


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def hub(server: LocalHub, tmp_path: Path, pauses: list[float]) -> Hub:
    return Hub(endpoint=server.url, cache=tmp_path / "cache", pause=pauses.append)


def test_a_file_is_pulled_with_its_hash_its_source_and_progress(hub: Hub, server: LocalHub) -> None:
    events: list[ProgressEvent] = []
    pulled = hub.pull("owner/name", "m-Q4_K_M.gguf", progress=events.append)
    (path,) = pulled.paths
    content = server.repositories["owner/name"].files["m-Q4_K_M.gguf"]
    assert path.is_absolute() and path.name == "m-Q4_K_M.gguf" and path.read_bytes() == content
    assert pulled.sha256 == {path: hashlib.sha256(content).hexdigest()}
    assert (pulled.source.repo, pulled.source.file) == ("owner/name", "m-Q4_K_M.gguf")
    assert pulled.source.revision == COMMIT
    downloads = [event for event in events if event.phase is ProgressPhase.DOWNLOAD]
    assert (downloads[0].done, downloads[-1].done, downloads[-1].total) == (0, len(content), len(content))
    assert events[-1].phase is ProgressPhase.HASH


def test_what_is_there_is_not_downloaded_again(hub: Hub, server: LocalHub) -> None:
    first = hub.pull("owner/name", "m-Q4_K_M.gguf")
    downloads = len(server.ranges())
    assert hub.pull("owner/name", "m-Q4_K_M.gguf") == first
    assert len(server.ranges()) == downloads == 1


def test_a_type_picks_its_file(hub: Hub) -> None:
    assert hub.pull("owner/name:q4_k_m").source.file == "m-Q4_K_M.gguf"
    assert hub.pull("owner/name:Q8_0").source.file == "m-Q8_0.gguf"


@pytest.mark.parametrize("file", [None, "big/m-F16-00002-of-00002.gguf"])
def test_all_parts_of_a_split_model_are_pulled_in_order(hub: Hub, file: str | None) -> None:
    pulled = hub.pull("owner/name" if file else "owner/name:F16", file)
    assert [path.read_bytes() for path in pulled.paths] == [b"GGUF1", b"GGUF2"]
    assert pulled.source.file == "big/m-F16-00001-of-00002.gguf"
    assert set(pulled.sha256) == set(pulled.paths)


def test_a_small_file_comes_too(hub: Hub, capfd: pytest.CaptureFixture[str]) -> None:
    pulled = hub.pull("owner/name", "tokenizer.json")
    assert pulled.paths[0].read_bytes() == b"{}"
    assert capfd.readouterr() == ("", "")


def test_a_revision_is_honoured(hub: Hub, server: LocalHub) -> None:
    pulled = hub.pull("owner/name", "m-Q8_0.gguf", revision="branch")
    assert pulled.source.revision == BRANCH_COMMIT
    assert BRANCH_COMMIT in str(pulled.paths[0])
    assert hub.pull("owner/name", "m-Q8_0.gguf", revision=COMMIT).source.revision == COMMIT


def test_a_branch_that_moves_during_a_pull_does_not_mix_two_commits(
    hub: Hub, server: LocalHub, tmp_path: Path
) -> None:
    server.moves = True
    for file in ("m-Q8_0.gguf", "tokenizer.json"):
        pulled = hub.pull("owner/name", file)
        assert pulled.source.revision == COMMIT
        assert pulled.paths[0].parent.name == COMMIT
    offline = Hub(endpoint=server.url, cache=tmp_path / "cache", offline=True)
    assert offline.pull("owner/name:Q8_0").source.revision == COMMIT


def test_the_token_of_the_environment_is_sent(
    hub: Hub, server: LocalHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    hub.pull("owner/name", "m-Q8_0.gguf")
    assert {token for *_, token in server.requests} == {"Bearer hf_secret"}


def test_a_connection_that_breaks_is_taken_up_again(hub: Hub, server: LocalHub) -> None:
    server.cut_after, server.cuts = 100_000, 2
    (path,) = hub.pull("owner/name", "m-Q4_K_M.gguf").paths
    assert path.read_bytes() == server.repositories["owner/name"].files["m-Q4_K_M.gguf"]
    assert server.ranges() == ["bytes=0-", "bytes=100000-", "bytes=200000-"]


def test_an_interrupted_download_goes_on_where_it_ended(hub: Hub, server: LocalHub, tmp_path: Path) -> None:
    server.cut_after, server.cuts = 100_000, 1

    def give_up(event: ProgressEvent) -> None:
        if event.done:
            raise Cancelled

    with pytest.raises(Cancelled):
        hub.pull("owner/name", "m-Q4_K_M.gguf", progress=give_up)
    again = Hub(endpoint=server.url, cache=tmp_path / "cache")
    (path,) = again.pull("owner/name", "m-Q4_K_M.gguf").paths
    assert path.read_bytes() == server.repositories["owner/name"].files["m-Q4_K_M.gguf"]
    first, second = server.ranges()
    assert first == "bytes=0-" and second not in (None, "bytes=0-")


def test_two_pulls_of_one_file_download_it_once(server: LocalHub, tmp_path: Path) -> None:
    def pull(_: int) -> Path:
        return Hub(endpoint=server.url, cache=tmp_path / "cache").pull("owner/name:Q4_K_M").paths[0]

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(pull, range(4)))) == 1
    assert len(server.ranges()) == 1


def test_a_server_without_ranges_starts_over(hub: Hub, server: LocalHub) -> None:
    server.cut_after, server.cuts, server.ignores_ranges = 100_000, 1, True
    (path,) = hub.pull("owner/name", "m-Q4_K_M.gguf").paths
    assert path.read_bytes() == server.repositories["owner/name"].files["m-Q4_K_M.gguf"]


def test_a_download_that_never_gets_on_gives_up_after_a_minute(
    hub: Hub, server: LocalHub, pauses: list[float]
) -> None:
    server.cut_after, server.cuts = 0, 1000
    with pytest.raises(HubError, match="stopped after 0 of 300004 bytes"):
        hub.pull("owner/name", "m-Q4_K_M.gguf")
    assert len(server.ranges()) == 8
    assert 60 <= sum(pauses) < 70 and max(pauses) <= 0.5


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_busy_server_is_asked_again(hub: Hub, server: LocalHub, pauses: list[float], status: int) -> None:
    server.busy = [status] * 3
    (path,) = hub.pull("owner/name", "m-Q4_K_M.gguf").paths
    assert path.read_bytes() == server.repositories["owner/name"].files["m-Q4_K_M.gguf"]
    assert sum(pauses) == 0.5 + 1 + 2


def test_a_server_that_stays_busy_is_named_with_its_status(hub: Hub, server: LocalHub) -> None:
    server.busy = [503] * 100
    message, advice = error_of(hub, "owner/name", "m-Q4_K_M.gguf")
    assert "stopped after 0 of 300004 bytes" in message and "503" in message
    assert advice == "try again: it goes on from there"


def test_a_download_can_be_given_up_while_it_waits(hub: Hub, server: LocalHub, pauses: list[float]) -> None:
    server.busy = [503] * 100

    def give_up(event: ProgressEvent) -> None:
        if len(pauses) == 20:
            raise Cancelled

    with pytest.raises(Cancelled):
        hub.pull("owner/name", "m-Q4_K_M.gguf", progress=give_up)
    assert len(pauses) == 20


def test_what_progress_raises_is_not_taken_for_a_fault_of_the_disk(hub: Hub, server: LocalHub) -> None:
    error = BrokenPipeError(errno.EPIPE, "Broken pipe")

    def fail(event: ProgressEvent) -> None:
        raise error

    with pytest.raises(BrokenPipeError) as caught:
        hub.pull("owner/name", "m-Q4_K_M.gguf", progress=fail)
    assert caught.value is error
    assert hub.pull("owner/name", "m-Q4_K_M.gguf").paths  # the lock is free again


def test_waiting_for_the_download_of_another_process_can_be_given_up(
    hub: Hub, server: LocalHub, tmp_path: Path, pauses: list[float]
) -> None:
    sha256 = server.repositories["owner/name"].sha256("m-Q4_K_M.gguf")
    blobs, locks = (tmp_path / "cache" / name / "models--owner--name" for name in ("", ".locks"))
    (blobs / "blobs").mkdir(parents=True)
    locks.mkdir(parents=True)
    (blobs / "blobs" / f"{sha256}.incomplete").write_bytes(bytes(1234))
    events: list[ProgressEvent] = []

    def give_up(event: ProgressEvent) -> None:
        events.append(event)
        if len(events) == 3:
            raise Cancelled

    with FileLock(locks / f"{sha256}.lock"), pytest.raises(Cancelled):
        hub.pull("owner/name", "m-Q4_K_M.gguf", progress=give_up)
    assert [(event.done, event.total) for event in events] == [(1234, 300_004)] * 3
    assert (len(pauses), server.ranges()) == (2, [])


def test_a_partial_file_that_is_too_long_is_started_over(hub: Hub, server: LocalHub, tmp_path: Path) -> None:
    repository = server.repositories["owner/name"]
    blobs = tmp_path / "cache" / "models--owner--name" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / f"{repository.sha256('m-Q8_0.gguf')}.incomplete").write_bytes(bytes(100))
    assert hub.pull("owner/name", "m-Q8_0.gguf").paths[0].read_bytes() == b"GGUF8"


def test_a_wrong_hash_is_an_error_and_the_file_is_not_kept(hub: Hub, server: LocalHub) -> None:
    repository = server.repositories["owner/name"]
    repository.wrong_hashes.add("m-Q8_0.gguf")
    with pytest.raises(HubError, match=r"m-Q8_0\.gguf has sha256 .*, the hub says"):
        hub.pull("owner/name", "m-Q8_0.gguf")
    repository.wrong_hashes.clear()
    assert hub.pull("owner/name", "m-Q8_0.gguf").paths[0].read_bytes() == b"GGUF8"


def error_of(hub: Hub, repo: str, file: str | None = None, revision: str | None = None) -> tuple[str, str]:
    with pytest.raises(HubError) as caught:
        hub.pull(repo, file, revision=revision)
    return caught.value.message, caught.value.advice or ""


def test_a_repository_that_is_not_there(hub: Hub) -> None:
    message, advice = error_of(hub, "owner/other", "x.gguf")
    assert message == "Hugging Face has no repository 'owner/other', or it is private"
    assert "HF_TOKEN" in advice


def test_a_file_that_is_not_there_lists_those_that_are(hub: Hub) -> None:
    message, advice = error_of(hub, "owner/name", "m-Q5_0.gguf")
    assert message == "owner/name has no file 'm-Q5_0.gguf'"
    assert advice == (
        "its GGUF files: big/m-F16-00001-of-00002.gguf, big/m-F16-00002-of-00002.gguf, "
        "m-Q4_K_M.gguf, m-Q8_0.gguf"
    )
    message, advice = error_of(hub, "owner/name", "tok.json")
    assert "README.md" in advice and "tokenizer.json" in advice


def test_a_type_that_is_not_there_lists_the_files(hub: Hub) -> None:
    message, advice = error_of(hub, "owner/name:Q4_K")
    assert message == "owner/name has no GGUF file of type Q4_K"
    assert "m-Q4_K_M.gguf" in advice


def test_more_than_one_file_is_not_guessed_at(hub: Hub, server: LocalHub) -> None:
    message, advice = error_of(hub, "owner/name")
    assert message == "owner/name has more than one GGUF file"
    assert advice == "name one of these files: big/m-F16-00001-of-00002.gguf, m-Q4_K_M.gguf, m-Q8_0.gguf"
    server.repositories["owner/name"].files["UD-Q8_0.gguf"] = b"GGUF"
    assert error_of(hub, "owner/name:Q8_0")[0] == "owner/name has more than one GGUF file of type Q8_0"


def test_the_only_gguf_needs_no_name(hub: Hub, server: LocalHub) -> None:
    server.repositories["owner/one"] = Repository({"a.gguf": b"GGUF", "README.md": b""})
    assert hub.pull("owner/one").source.file == "a.gguf"


def test_a_long_list_of_files_is_cut(hub: Hub, server: LocalHub) -> None:
    server.repositories["owner/many"] = Repository({f"m{i:03}.gguf": b"GGUF" for i in range(60)})
    assert error_of(hub, "owner/many")[1].endswith("m039.gguf and 20 more")


def test_a_gated_repository_says_how_to_get_in(hub: Hub, server: LocalHub) -> None:
    server.repositories["owner/name"].is_gated = True
    for file in ("m-Q8_0.gguf", "tokenizer.json"):
        message, advice = error_of(hub, "owner/name", file)
        assert message == "owner/name is gated"
        assert "https://huggingface.co/owner/name" in advice and "HF_TOKEN" in advice


def test_a_revision_that_is_not_there(hub: Hub) -> None:
    assert error_of(hub, "owner/name", "m-Q8_0.gguf", "v9")[0] == "owner/name has no such revision"


@pytest.mark.parametrize("repo", ["a/b/c", "", "owner name/x", "../x", "owner/na--me"])
def test_a_name_that_is_none(hub: Hub, repo: str) -> None:
    assert error_of(hub, repo, "x.gguf") == (f"{repo!r} is no name of a repository", "give it as owner/name")


@pytest.mark.parametrize("repo", ["owner/name:", "owner/name: "])
def test_an_empty_type_is_none(hub: Hub, repo: str) -> None:
    message, advice = error_of(hub, repo)
    assert message == f"{repo!r} names no type" and "owner/name:Q4_K_M" in advice


def test_a_type_and_a_file_do_not_go_together(hub: Hub) -> None:
    assert "one of them" in error_of(hub, "owner/name:Q8_0", "m-Q8_0.gguf")[1]


def test_a_refusal_is_told_with_its_status(hub: Hub, server: LocalHub) -> None:
    server.status = 418
    assert error_of(hub, "owner/name", "m-Q8_0.gguf")[0].startswith(
        "Hugging Face refused owner/name: status 418"
    )


def test_a_page_of_someone_else_is_no_hub(hub: Hub, server: LocalHub) -> None:
    server.is_captive = True
    assert error_of(hub, "owner/name", "m-Q8_0.gguf")[0].startswith("Hugging Face cannot be reached: ")


def test_no_network_is_said(tmp_path: Path) -> None:
    with LocalHub() as closed:
        url = closed.url
    message, advice = error_of(Hub(endpoint=url, cache=tmp_path), "owner/name", "x.gguf")
    assert message.startswith("Hugging Face cannot be reached: ") and "HF_HUB_OFFLINE" in advice


def test_a_disk_without_room_is_said_before_the_download(server: LocalHub, tmp_path: Path) -> None:
    with pytest.raises(
        HubError, match=r"the disk is full: .* bytes free, the download needs 1000000000000000000 more"
    ):
        list(download_file(f"{server.url}/owner/name/resolve/main/m-Q8_0.gguf", tmp_path / "x", 10**18))
    assert server.requests == []


def test_a_disk_that_fills_up_during_the_download_is_said() -> None:
    with (
        pytest.raises(HubError, match=r"the disk is full: .*No space left") as caught,
        hub_errors("owner/name"),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert "free some space" in str(caught.value.advice)


def test_more_bytes_than_the_hub_names_are_an_error(server: LocalHub, tmp_path: Path) -> None:
    with pytest.raises(HubError, match="more than the 3 bytes"):
        list(download_file(f"{server.url}/owner/name/resolve/main/m-Q8_0.gguf", tmp_path / "x", 3))


def test_a_cache_that_cannot_be_written_is_said(server: LocalHub, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    hub = Hub(endpoint=server.url, cache=tmp_path / "file" / "cache")
    message, advice = error_of(hub, "owner/name", "m-Q8_0.gguf")
    assert message.startswith("the cache cannot be used: ") and "HF_HOME" in advice


PULL = """
import sys
from rase_core import EngineError, pull
for name in sys.argv[1:]:
    try:
        pulled = pull(*name.split())
        print(pulled.source.revision, pulled.paths[0].name)
    except EngineError as error:
        print(error)
"""


def pull_in_another_process(names: list[str], environment: dict[str, str]) -> list[str]:
    finished = subprocess.run(
        [sys.executable, "-c", PULL, *names],
        env={**os.environ, **environment},
        check=True,
        capture_output=True,
        text=True,
    )
    assert finished.stderr == ""
    return finished.stdout.splitlines()


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ({"HF_HUB_ETAG_TIMEOUT": "soon"}, "a variable of huggingface_hub cannot be read: .*'soon'"),
        ({"https_proxy": "ftp://box.example"}, "Hugging Face cannot be asked: .*ftp://box.example"),
        ({"https_proxy": "::::"}, "Hugging Face cannot be asked: "),
        ({"HF_ENDPOINT": "foo"}, "Hugging Face cannot be "),
        ({"SSL_CERT_FILE": "/no/such/file"}, "Hugging Face cannot be asked: "),
        ({"HF_TOKEN": "schlüssel"}, "Hugging Face cannot be "),
    ],
)
def test_settings_of_the_environment_that_cannot_be_used_are_named(
    tmp_path: Path, setting: dict[str, str], named: str
) -> None:
    place = {"HF_HOME": str(tmp_path), "HF_ENDPOINT": "https://127.0.0.1:9", "NO_PROXY": ""}
    (told,) = pull_in_another_process(["owner/name m-Q8_0.gguf"], place | setting)
    assert re.match(named, told), told


def test_offline_what_the_cache_lacks_is_not_said_of_the_repository(
    hub: Hub, server: LocalHub, tmp_path: Path
) -> None:
    hub.pull("owner/name", "m-Q8_0.gguf")
    offline = Hub(endpoint=server.url, cache=tmp_path / "cache", offline=True)
    message, advice = error_of(offline, "owner/name:F16")
    assert message == "the cache has no GGUF file of type F16 of owner/name, and offline mode is on"
    assert advice == "unset HF_HUB_OFFLINE to download it; the cache has the GGUF files: m-Q8_0.gguf"


def test_offline_a_link_that_leads_nowhere_hides_no_other_file(
    hub: Hub, server: LocalHub, tmp_path: Path
) -> None:
    pulled = hub.pull("owner/name", "m-Q8_0.gguf")
    pulled.paths[0].with_name("gone.gguf").symlink_to("nowhere")
    offline = Hub(endpoint=server.url, cache=tmp_path / "cache", offline=True)
    assert offline.pull("owner/name", "m-Q8_0.gguf").paths == pulled.paths
    assert error_of(offline, "owner/name", "gone.gguf")[0].startswith("the cache has no file 'gone.gguf'")


def test_offline_uses_what_was_downloaded_before(server: LocalHub, tmp_path: Path) -> None:
    place = {"HF_HOME": str(tmp_path / "home"), "HF_ENDPOINT": server.url, "NO_PROXY": "127.0.0.1"}
    pulled = f"{COMMIT} m-Q8_0.gguf"
    assert pull_in_another_process(["owner/name m-Q8_0.gguf"], place) == [pulled]
    requests = len(server.requests)
    names = ["owner/name m-Q8_0.gguf", "owner/name:q8_0", "owner/name tokenizer.json", "owner/other x.gguf"]
    assert pull_in_another_process(names, place | {"HF_HUB_OFFLINE": "1"}) == [
        pulled,
        pulled,
        "the cache has no file 'tokenizer.json' of owner/name, and offline mode is on",
        f"owner/other is not in {tmp_path}/home/hub, and offline mode is on",
    ]
    assert len(server.requests) == requests
