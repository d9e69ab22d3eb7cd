"""A process that may open no more files."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest
from rase_core.errors import StoreError, TooManyOpenFiles
from rase_core.model_file import open_file, unreadable
from rase_core.registry import ModelRegistry
from rase_core.store_errors import store_errors
from rase_core.testing_files import no_files_left

pytest.importorskip("resource")

USES: dict[str, Callable[[ModelRegistry, Path], object]] = {
    "list": lambda registry, weights: registry.list(),
    "get": lambda registry, weights: registry.get("tiny"),
    "get by an alias": lambda registry, weights: registry.get("small"),
    "get what is not there": lambda registry, weights: registry.get("other"),
    "alias": lambda registry, weights: registry.add_alias("tiny", "another"),
    "remove": lambda registry, weights: registry.remove("tiny"),
    "verify": lambda registry, weights: registry.verify("tiny"),
    "import": lambda registry, weights: registry.import_local(weights, "tiny"),
    "read weights": lambda registry, weights: open_file(weights),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_what_cannot_be_opened_for_now_is_not_said_to_be_at_fault(
    registry: ModelRegistry, weights: Path, use: Callable[[ModelRegistry, Path], object]
) -> None:
    registry.import_local(weights, "tiny")
    registry.add_alias("tiny", "small")
    with no_files_left(), pytest.raises(TooManyOpenFiles, match="no more files can be opened") as caught:
        use(registry, weights)
    assert "ulimit -n" in (caught.value.advice or "")
    registry.verify("tiny")


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_it_is_the_same_where_all_processes_together_have_too_many(number: int) -> None:
    error = OSError(number, "full", "/store/file")
    with pytest.raises(TooManyOpenFiles, match=r"^/store/file: "), store_errors(Path("/store")):
        raise error
    assert isinstance(unreadable(Path("/file"), error), TooManyOpenFiles)


def test_other_failures_are_still_the_stores(registry: ModelRegistry) -> None:
    with pytest.raises(StoreError, match="read-only"), store_errors(Path("/store")):
        raise OSError(errno.EROFS, "read-only")
