"""How fast rase encodes text beside the library `tokenizers`: prints one row of a table.

    python benchmarks/tokenizing.py MODEL.gguf tokenizer.json TEXT...

Each text file gives 120 prompts of 200 bytes, 10 documents of 8 KB and one of 1 MB, none of which either has
seen before. A number is how many times faster rase is; the library is asked in the faster of its two ways,
and has one thread, as rase has.
"""

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rase_models.tokenizers import load_tokenizer
from tokenizers import Tokenizer as Library

SIZES = {"200 B": (200, 120), "8 KB": (8192, 10), "1 MB": (1 << 20, 1)}
Encode = Callable[[str], object]


def main(model: str, document: str, files: Sequence[str]) -> None:
    """Print the row."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    start = time.perf_counter()
    tokenizer = load_tokenizer(model)
    tokenizer.compile()
    built = time.perf_counter() - start
    libraries = [Library.from_file(document) for _ in range(2)]
    ways: tuple[Encode, ...] = (
        lambda text: tokenizer.encode(text, add_special_tokens=False),
        lambda text: libraries[0].encode(text, add_special_tokens=False).ids,
        lambda text: libraries[1].encode_batch_fast([text], add_special_tokens=False)[0].ids,
    )
    cells = [_times_faster(texts, ways) for file in files for texts in _texts(Path(file).read_bytes())]
    sys.stdout.write(f"| {Path(model).stem} | {built:.2f} s | {' | '.join(cells)} |\n")


def _texts(data: bytes) -> list[list[str]]:
    """Return the texts of each size, one after the other in the file."""
    found, at = list[list[str]](), 0
    for size, count in SIZES.values():
        parts = [data[at + size * i : at + size * (i + 1)] for i in range(count)]
        found.append([part.decode("utf-8", "ignore") for part in parts])
        at += size * count
    return found


def _times_faster(texts: Sequence[str], ways: Sequence[Encode]) -> str:
    ours, *others = [_seconds(texts, way) for way in ways]
    return f"{min(others) / ours:.1f}"


def _seconds(texts: Sequence[str], encode: Encode) -> float:
    encode("a")
    start = time.perf_counter()
    for text in texts:
        encode(text)
    return time.perf_counter() - start


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
