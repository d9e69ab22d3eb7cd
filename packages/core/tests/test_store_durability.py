"""A store is whole whatever other processes, disks and permissions do."""

import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rase_core.errors import (
    StoreError,
)
from rase_core.lock import FileLock
from rase_core.registration import Registration
from rase_core.registry import ModelRegistry


def manifest_path(registry: ModelRegistry, model_id: str) -> Path:
    return registry.store / "manifests" / f"{model_id}.toml"


def kept_files(registry: ModelRegistry) -> list[Path]:
    return list((registry.store / "manifests").iterdir())


def test_a_store_that_another_process_keeps_locked_is_in_use(weights: Path, tmp_path: Path) -> None:
    registry = ModelRegistry(tmp_path / "store", patience=0.05)
    registry.import_local(weights, "a")
    with (
        FileLock(registry.store / "manifests" / ".lock"),
        pytest.raises(StoreError, match="the model store is in use: ") as caught,
    ):
        registry.import_local(weights, "a")
    assert caught.value.advice == "try again when that is done"


def test_a_store_that_is_a_file_is_a_named_error(tmp_path: Path, weights: Path) -> None:
    (tmp_path / "file").write_text("")
    for store in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StoreError, match="file") as caught:
            ModelRegistry(store).import_local(weights, "a")
        assert "RASE_STORE" in str(caught.value.advice)
    with pytest.raises(StoreError):
        ModelRegistry(tmp_path / "file").list()


IMPORT = """
import os, sys
from pathlib import Path
from rase_core.errors import StoreError
from rase_core.registration import Registration
from rase_core.registry import ModelRegistry
{before}
try:
    given = Registration(chat_template="x" * {template})
    ModelRegistry(Path(sys.argv[1])).import_local(Path(sys.argv[2]), "a", given)
except StoreError as error:
    print(error, error.advice)
"""


def import_in_another_process(store: Path, weights: Path, before: str, template: int = 1) -> str:
    code = IMPORT.format(before=before, template=template)
    return subprocess.run(
        [sys.executable, "-c", code, str(store), str(weights)], check=True, capture_output=True, text=True
    ).stdout


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user"
)
def test_a_store_without_write_permission_is_a_named_error(registry: ModelRegistry, weights: Path) -> None:
    registry.import_local(weights, "a")
    for folder in (weights, *weights.parents):
        if folder.stat().st_uid == os.geteuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    kept = manifest_path(registry, "a").read_bytes()
    become = (
        "ModelRegistry(Path(sys.argv[1])).list(); os.setgid(65534); os.setuid(65534)"  # libraries are read
    )
    said = import_in_another_process(registry.store, weights, become)
    assert "Permission denied" in said and "manifests" in said and "--store" in said
    assert manifest_path(registry, "a").read_bytes() == kept


def test_a_full_disk_is_a_named_error_and_the_old_manifest_stays(
    registry: ModelRegistry, weights: Path
) -> None:
    registry.import_local(weights, "a")
    kept = manifest_path(registry, "a").read_bytes()
    # A limit on the size of files is met where a full disk would be: in the middle of the write.
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))"
    said = import_in_another_process(registry.store, weights, limit, template=100_000)
    assert "File too large" in said and "--store" in said
    assert manifest_path(registry, "a").read_bytes() == kept
    assert sorted(path.name for path in kept_files(registry)) == [".lock", "a.toml"]


@pytest.mark.skipif(shutil.which("mount") is None or not hasattr(os, "geteuid"), reason="needs mount")
def test_a_full_disk_says_to_free_some_space(tmp_path: Path, weights: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if subprocess.run(mounting, capture_output=True, check=False).returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        registry = ModelRegistry(disk)
        registry.import_local(weights, "a")
        with pytest.raises(StoreError, match="No space left") as caught:
            registry.import_local(weights, "a", Registration(chat_template="x" * 100_000))
        assert "free some space" in str(caught.value.advice)
        assert registry.get("a").chat_template is None
    finally:
        subprocess.run(["umount", str(disk)], check=True)


MANY = """
import sys
from pathlib import Path
from rase_core.registration import Registration
from rase_core.registry import ModelRegistry
registry = ModelRegistry(Path(sys.argv[1]))
print("ready", flush=True)
for round in range(int(sys.argv[3])):
    given = Registration(chat_template=f"{round:01000}")
    registry.import_local(Path(sys.argv[2]), f"{sys.argv[4]}{round % 5}", given)
"""


def start_many(registry: ModelRegistry, weights: Path, rounds: int, name: str) -> "subprocess.Popen[bytes]":
    arguments = [str(registry.store), str(weights), str(rounds), name]
    process = subprocess.Popen([sys.executable, "-c", MANY, *arguments], stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    return process


def test_a_kill_at_any_moment_leaves_a_whole_store(registry: ModelRegistry, weights: Path) -> None:
    pauses = random.Random(0)
    for _ in range(6):
        with start_many(registry, weights, 100, "model") as process:
            time.sleep(pauses.uniform(0.0, 0.25))
            process.kill()
        assert registry.broken() == ()
        for manifest in registry.list():
            assert manifest.chat_template is not None and len(manifest.chat_template) == 1000
    registry.import_local(weights, "after")
    assert all(path.suffix == ".toml" or path.name == ".lock" for path in kept_files(registry))


def test_two_processes_import_at_once(registry: ModelRegistry, weights: Path) -> None:
    with start_many(registry, weights, 40, "m") as one, start_many(registry, weights, 40, "m") as two:
        while one.poll() is None or two.poll() is None:
            assert registry.broken() == ()
            time.sleep(0.01)
        assert (one.returncode, two.returncode) == (0, 0)
    assert [manifest.id for manifest in registry.list()] == ["m0", "m1", "m2", "m3", "m4"]
