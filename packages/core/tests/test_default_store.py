"""Where the store is that nobody names."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from rase_core.store_folder import default_store


def test_the_default_store_is_named_by_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RASE_STORE", str(tmp_path / "mine"))
    assert default_store() == tmp_path / "mine"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RASE_STORE", "relative")
    assert default_store() == tmp_path / "relative"
    monkeypatch.setenv("RASE_STORE", "~/mine")
    assert default_store() == Path.home() / "mine"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other folders")
def test_the_default_store_is_in_the_users_data_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RASE_STORE", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert default_store() == tmp_path / ".local" / "share" / "rase"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert default_store() == tmp_path / "data" / "rase"
    monkeypatch.setenv("XDG_DATA_HOME", "relative, so to be ignored")
    assert default_store() == tmp_path / ".local" / "share" / "rase"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems find the home in another way")
def test_a_user_without_a_home_is_asked_for_a_store() -> None:
    code = """
import os, pwd
from rase_core import StoreError, default_store
os.setuid(max(user.pw_uid for user in pwd.getpwall()) + 12345)
try:
    default_store()
except StoreError as error:
    print(error.advice)
"""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    environment = {key: value for key, value in os.environ.items() if key not in ("HOME", "RASE_STORE")}
    finished = subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True
    )
    assert finished.stdout == "name one with --store or RASE_STORE\n"
