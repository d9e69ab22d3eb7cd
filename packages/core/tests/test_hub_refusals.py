"""What the hub, the network or the disk refuses, and what is said of it."""

import errno
from pathlib import Path

import pytest
from rase_core.download import download_file
from rase_core.errors import HubError
from rase_core.hub import Hub
from rase_core.hub_errors import hub_errors
from rase_core.testing_hub import LocalHub, Repository


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
