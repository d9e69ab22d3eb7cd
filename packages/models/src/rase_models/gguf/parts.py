"""Split models: the files `NAME-00001-of-0000N.gguf` that hold one model together."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rase_core.errors import InvalidGguf, ModelFileNotFound
from rase_core.weights import split_parts

from rase_models.gguf.metadata import MetadataValue
from rase_models.gguf.reader import Header
from rase_models.gguf.tensor import TensorInfo


def split_paths(path: Path) -> tuple[Path, ...]:
    """Return all parts, in order, of the model that a file name belongs to; the file alone if not split."""
    names = split_parts(path.name)
    return (path,) if len(names) == 1 else tuple(path.with_name(name) for name in names)


def check_present(paths: Sequence[Path]) -> None:
    """Raise ModelFileNotFound for the first part that is missing."""
    for number, path in enumerate(paths, 1):
        if len(paths) > 1 and not path.exists():
            raise ModelFileNotFound(path, f"part {number} of {len(paths)} of a split model is missing")


def check_split(paths: Sequence[Path], headers: Sequence[Header]) -> None:
    """Raise InvalidGguf unless every part says that it is this one of so many."""
    for number, (path, header) in enumerate(zip(paths, headers, strict=True)):
        count = _count(header.metadata)
        if count != len(paths):
            raise InvalidGguf(
                path, f"metadata 'split.count': the model has {count} parts, its file name says {len(paths)}"
            )
        if count > 1 and header.metadata.get("split.no") != number:
            found = header.metadata.get("split.no", "missing")
            raise InvalidGguf(path, f"metadata 'split.no': expected {number}, found {found}")


def join_tensors(paths: Sequence[Path], headers: Sequence[Header]) -> dict[str, TensorInfo]:
    """Return the tensors of all parts by name, in file order; InvalidGguf when one is doubled or missing."""
    tensors: dict[str, TensorInfo] = {}
    for path, header in zip(paths, headers, strict=True):
        for tensor in sorted(header.tensors, key=lambda tensor: tensor.offset):
            if tensor.name in tensors:
                raise InvalidGguf(path, f"tensor {tensor.name!r} is in an earlier part too")
            tensors[tensor.name] = tensor
    expected = headers[0].metadata.get("split.tensors.count", len(tensors))
    if len(paths) > 1 and expected != len(tensors):
        raise InvalidGguf(paths[0], f"metadata 'split.tensors.count' is {expected}, found {len(tensors)}")
    return tensors


def _count(metadata: Mapping[str, MetadataValue]) -> int:
    count = metadata.get("split.count", 1)
    return max(count, 1) if isinstance(count, int) else 0
