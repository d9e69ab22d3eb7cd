"""The header of one file: what is read, and what is refused by name."""

import struct
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rase_core.errors import InvalidGguf, UnsupportedFormat
from rase_models.gguf import GgmlType, open_gguf

U32, U64 = struct.Struct("<I").pack, struct.Struct("<Q").pack
HUGE = 2**63 + 7


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return U64(len(data)) + data


def entry(key: str | bytes, kind: int, value: bytes) -> bytes:
    return text(key) + U32(kind) + value


def array(kind: int, count: int, values: bytes) -> bytes:
    return U32(kind) + U64(count) + values


def tensor(name: str | bytes, sizes: tuple[int, ...], kind: int = 0, offset: int = 0) -> bytes:
    return text(name) + U32(len(sizes)) + b"".join(map(U64, sizes)) + U32(kind) + U64(offset)


def header(
    *parts: bytes, entries: int = 0, tensors: int = 0, version: int = 3, order: str = "<", data: int = 0
) -> bytes:
    head = b"GGUF" + struct.pack(order + "IQQ", version, tensors, entries) + b"".join(parts)
    return head + bytes(-len(head) % 32) + bytes(data)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[bytes], Path]:
    def write_file(data: bytes) -> Path:
        path = tmp_path / "model.gguf"
        path.write_bytes(data)
        return path

    return write_file


Write = Callable[[bytes], Path]


@pytest.mark.parametrize("version", [2, 3])
def test_a_header_without_anything_is_read(write: Write, version: int) -> None:
    file = open_gguf(write(header(version=version)))
    assert (file.version, file.alignment, dict(file.metadata), dict(file.tensors)) == (version, 32, {}, {})


SCALARS = [
    (0, "B", 200),
    (1, "b", -3),
    (2, "H", 60000),
    (3, "h", -300),
    (4, "I", 4_000_000_000),
    (5, "i", -70000),
    (6, "f", 0.5),
    (7, "?", True),
    (10, "Q", 2**63),
    (11, "q", -(2**40)),
    (12, "d", 0.1),
]


@pytest.mark.parametrize(("kind", "layout", "value"), SCALARS)
def test_a_scalar_of_every_type_becomes_a_python_value(
    write: Write, kind: int, layout: str, value: float
) -> None:
    file = open_gguf(write(header(entry("k", kind, struct.pack("<" + layout, value)), entries=1)))
    assert file.metadata["k"] == value
    assert type(file.metadata["k"]) is type(value)


@pytest.mark.parametrize(("kind", "layout", "value"), SCALARS)
def test_an_array_of_every_type_becomes_a_read_only_array(
    write: Write, kind: int, layout: str, value: float
) -> None:
    data = struct.pack("<3" + layout, value, 0, value)
    found = open_gguf(write(header(entry("k", 9, array(kind, 3, data)), entries=1))).metadata["k"]
    assert isinstance(found, np.ndarray)
    assert found.tolist() == [value, 0, value]
    assert not found.flags.writeable


def test_strings_keep_bytes_that_are_not_utf8(write: Write) -> None:
    words = (b"caf\xc3\xa9", b"\xff\xfe", b"")
    data = header(entry("k", 9, array(8, 3, b"".join(map(text, words)))), entries=1)
    found = open_gguf(write(data)).strings("k")
    assert [word.encode("utf-8", "surrogateescape") for word in found] == list(words)


def test_strings_longer_than_a_chunk_are_read_whole(write: Write) -> None:
    words = [b"a" * 3, b"b" * (5 << 20), b"c" * 7, b"d" * (9 << 20)]
    data = header(entry("k", 9, array(8, 4, b"".join(map(text, words)))), entries=1)
    assert [word.encode() for word in open_gguf(write(data)).strings("k")] == words


def test_a_tensor_has_numpy_s_shape_and_an_absolute_offset(write: Write) -> None:
    data = header(tensor("a", (64, 3), kind=2), tensor("b", (5,), offset=128), tensors=2, data=128 + 20)
    file = open_gguf(write(data))
    a, b = file.tensors["a"], file.tensors["b"]
    assert (a.type, a.shape, a.nbytes, a.part) == (GgmlType.Q4_0, (3, 64), 3 * 2 * 18, 0)
    assert (b.type, b.shape, b.nbytes) == (GgmlType.F32, (5,), 20)
    assert (a.offset % 32, b.offset - a.offset) == (0, 128)


def test_the_alignment_of_the_file_counts(write: Write) -> None:
    data = header(entry("general.alignment", 4, U32(256)), tensor("a", (1,)), entries=1, tensors=1, data=512)
    file = open_gguf(write(data))
    assert (file.alignment, file.tensors["a"].offset) == (256, 256)


VERSIONS = [
    (header(version=1), "GGUF version 1"),
    (header(version=4), "GGUF version 4"),
    (header(version=0), "GGUF version 0"),
    (header(version=3, order=">"), "a big-endian GGUF"),
]


@pytest.mark.parametrize(("data", "found"), VERSIONS)
def test_other_versions_and_byte_orders_are_refused(write: Write, data: bytes, found: str) -> None:
    with pytest.raises(UnsupportedFormat) as caught:
        open_gguf(write(data))
    assert caught.value.found == found


BROKEN = [
    pytest.param(b"GGUF", "version", id="nothing after the magic"),
    pytest.param(b"GGUF\3\0\0\0" + U64(0), "metadata count", id="no metadata count"),
    pytest.param(header(entries=HUGE), "metadata entries: 9223372036854775815 do not fit", id="entries"),
    pytest.param(header(tensors=HUGE), "tensors: 9223372036854775815 do not fit", id="tensors"),
    pytest.param(header(U64(HUGE), entries=1, data=64), "the key of metadata entry 0", id="key length"),
    pytest.param(header(entry("k" * 65536, 0, b"1"), entries=1), "at most 65535", id="long key"),
    pytest.param(header(tensor("t" * 257, (1,)), tensors=1), "at most 256", id="long tensor name"),
    pytest.param(header(entry(b"\xff", 0, b"1"), entries=1), "not UTF-8", id="key bytes"),
    pytest.param(header(entry("k", 13, U64(0)), entries=1), "metadata 'k': unknown value type 13", id="type"),
    pytest.param(header(entry("k", 8, U64(HUGE)), entries=1), "metadata 'k'", id="string length"),
    pytest.param(header(entry("k", 7, b"\2"), entries=1), "metadata 'k': a bool is 2", id="bool"),
    pytest.param(header(entry("k", 9, array(4, HUGE, b"")), entries=1), "metadata 'k'", id="array length"),
    pytest.param(header(entry("k", 9, array(8, HUGE, b"")), entries=1), "metadata 'k'", id="strings"),
    pytest.param(
        header(entry("k", 9, array(8, 2, text("a") + U64(99))), entries=1), "metadata 'k'", id="item"
    ),
    pytest.param(header(entry("k", 9, array(77, 1, U64(0))), entries=1), "unknown value type 77", id="items"),
    pytest.param(
        header(entry("k", 9, array(9, 1, array(4, 1, U32(1)))), entries=1), "arrays of arrays", id="nested"
    ),
    pytest.param(header(entry("k", 0, b"1") * 2, entries=2), "'k': the key occurs twice", id="twice"),
    pytest.param(
        header(entry("general.alignment", 4, U32(24)), entries=1), "expected a power of two", id="alignment"
    ),
    pytest.param(
        header(entry("general.alignment", 4, U32(0)), entries=1), "expected a power of two", id="alignment 0"
    ),
    pytest.param(
        header(entry("general.alignment", 8, text("x")), entries=1), "found the str 'x'", id="alignment type"
    ),
    pytest.param(header(tensor(b"\xff", (1,)), tensors=1, data=32), "not UTF-8", id="tensor name"),
    pytest.param(header(tensor("a", ()), tensors=1, data=32), "'a': 0 dimensions", id="no dimension"),
    pytest.param(header(tensor("a", (1,) * 5), tensors=1), "'a': 5 dimensions", id="five dimensions"),
    pytest.param(
        header(tensor("a", (0,)), tensors=1, data=32), "'a': a dimension is 0", id="empty dimension"
    ),
    pytest.param(header(tensor("a", (1,), kind=99), tensors=1), "'a': unknown type 99", id="tensor type"),
    pytest.param(header(tensor("a", (33,), kind=2), tensors=1), "no whole Q4_0 blocks", id="blocks"),
    pytest.param(header(tensor("a", (HUGE, HUGE)), tensors=1), "ends after the file's", id="absurd shape"),
    pytest.param(header(tensor("a", (9,)), tensors=1, data=32), "ends after the file's", id="data missing"),
    pytest.param(header(tensor("a", (1,), offset=HUGE - 7), tensors=1), "ends after", id="absurd offset"),
    pytest.param(header(tensor("a", (1,), offset=8), tensors=1, data=64), "no multiple of 32", id="offset"),
    pytest.param(
        header(tensor("a", (1,)), tensor("a", (1,), offset=32), tensors=2, data=64),
        "'a' occurs twice",
        id="a a",
    ),
    pytest.param(
        header(tensor("a", (9,)), tensor("b", (1,), offset=32), tensors=2, data=64), "overlap", id="overlap"
    ),
]


@pytest.mark.parametrize(("data", "what"), BROKEN)
def test_a_broken_field_is_named(write: Write, data: bytes, what: str) -> None:
    with pytest.raises(InvalidGguf) as caught:
        open_gguf(write(data))
    assert what in caught.value.what


def test_a_count_in_a_sparse_file_does_not_fill_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "sparse.gguf"
    with path.open("wb") as file:
        file.write(b"GGUF" + U32(3) + U64(0) + U64(1) + entry("k", 9, array(0, 1 << 40, b"")))
        file.truncate(1 << 41)
    tracemalloc.start()
    try:
        with pytest.raises(InvalidGguf, match="the header is longer than 268435456 bytes"):
            open_gguf(path)
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()


def test_a_vocabulary_of_262144_tokens_is_read_soon(write: Write) -> None:
    count = 1 << 18
    parts = [
        entry(
            "tokenizer.ggml.tokens", 9, array(8, count, b"".join(text(f"token {i}") for i in range(count)))
        ),
        entry("tokenizer.ggml.scores", 9, array(6, count, bytes(4 * count))),
        entry("tokenizer.ggml.token_type", 9, array(5, count, bytes(4 * count))),
    ]
    path = write(header(*parts, entries=3))
    seconds = []
    for _ in range(3):
        start = time.thread_time()
        assert len(open_gguf(path).strings("tokenizer.ggml.tokens")) == count
        seconds.append(time.thread_time() - start)
    assert min(seconds) < 0.3


def test_a_file_of_nothing_but_empty_things_needs_little_memory(write: Write) -> None:
    empty = array(8, 6_000_000, bytes(48_000_000))
    files = {
        "6000000 strings, but a header may have": header(entry("a", 9, empty), entries=1),
        "metadata entries: 1000000, at most": header(bytes(20_000_000), entries=1_000_000),
        "tensors: 1000000, at most": header(bytes(40_000_000), tensors=1_000_000),
    }
    for what, data in files.items():
        path = write(data)
        tracemalloc.start()
        try:
            with pytest.raises(InvalidGguf, match=what):
                open_gguf(path)
            assert tracemalloc.get_traced_memory()[1] < 16 << 20
        finally:
            tracemalloc.stop()


def test_the_strings_of_all_arrays_count_together(write: Write) -> None:
    half = array(8, (1 << 21) + 1, bytes(8 * ((1 << 21) + 1)))
    with pytest.raises(InvalidGguf, match="metadata 'b': 2097153 strings, but a header may have 4194304"):
        open_gguf(write(header(entry("a", 9, half), entry("b", 9, half), entries=2)))
