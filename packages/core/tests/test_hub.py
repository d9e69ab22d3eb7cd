"""Pulls from a small server on this machine that answers as the hub does."""

import errno
import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from rase_core.errors import Cancelled, HubError
from rase_core.hub import Hub
from rase_core.lock import FileLock
from rase_core.progress import ProgressEvent, ProgressPhase
from rase_core.testing_hub import BRANCH_COMMIT, COMMIT, LocalHub


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
    with pytest.raises(HubError, match=r"stopped after 0 of 300004 bytes.*503") as caught:
        hub.pull("owner/name", "m-Q4_K_M.gguf")
    assert caught.value.advice == "try again: it goes on from there"


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
