"""Pulls by what the environment says, and without a network."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rase_core.errors import HubError
from rase_core.hub import Hub
from rase_core.testing_hub import COMMIT, LocalHub

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
    with pytest.raises(HubError) as caught:
        offline.pull("owner/name:F16")
    message, advice = caught.value.message, caught.value.advice
    assert message == "the cache has no GGUF file of type F16 of owner/name, and offline mode is on"
    assert advice == "unset HF_HUB_OFFLINE to download it; the cache has the GGUF files: m-Q8_0.gguf"


def test_offline_a_link_that_leads_nowhere_hides_no_other_file(
    hub: Hub, server: LocalHub, tmp_path: Path
) -> None:
    pulled = hub.pull("owner/name", "m-Q8_0.gguf")
    pulled.paths[0].with_name("gone.gguf").symlink_to("nowhere")
    offline = Hub(endpoint=server.url, cache=tmp_path / "cache", offline=True)
    assert offline.pull("owner/name", "m-Q8_0.gguf").paths == pulled.paths
    with pytest.raises(HubError, match=r"the cache has no file 'gone\.gguf'"):
        offline.pull("owner/name", "gone.gguf")


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
