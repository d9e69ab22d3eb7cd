"""The measurements, each a function that gives rows of the report."""

import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import cases
import limits
from engines import Engines, Work
from rase_models.byte_hashes import ByteHashes
from rase_models.gguf import open_gguf
from rase_models.loading import load_decoder
from rase_models.step_work import step_work
from rows import Row, least_row, most_row, ratio_row

LONG_CONTEXT = 4096
TOGETHER = 8


def _cases(some: tuple[cases.Case, ...], folder: Path) -> Iterator[tuple[cases.Case, Path]]:
    for case in some:
        if (path := cases.find(case, folder)) is not None:
            yield case, path


def speeds(engines: Engines, folder: Path) -> Iterator[Row]:
    """Measure decoding and prompts of 512 tokens."""
    for case, path in _cases((*cases.MAIN, *cases.LARGER), folder):
        generated = 128 if path.stat().st_size < 1e9 else 24
        ours, theirs = engines.compare(path, Work(512, generated))
        yield ratio_row(f"decode, {case.name}", ours["decode_tok_s"], theirs.get("decode_tok_s"), case.decode)
        if case.prefill is not None:
            yield ratio_row(
                f"prefill of 512, {case.name}",
                ours["prefill_tok_s"],
                theirs.get("prefill_tok_s"),
                case.prefill,
            )


def types(engines: Engines, folder: Path) -> Iterator[Row]:
    """Measure decoding with every other weight type."""
    once = replace(engines, rounds=max(engines.rounds - 1, 1))
    for case, path in _cases(cases.TYPES, folder):
        ours, theirs = once.compare(path, Work(16, 32))
        yield ratio_row(f"decode, {case.name}", ours["decode_tok_s"], theirs.get("decode_tok_s"), case.decode)


def long_context(engines: Engines, folder: Path) -> Iterator[Row]:
    """Measure decoding after, and prompts of, thousands of tokens."""
    once = replace(engines, rounds=1)
    for case, path in _cases((cases.LONG,), folder):
        ours, theirs = once.compare(path, Work(0, 32, LONG_CONTEXT))
        work = f"decode after {LONG_CONTEXT} tokens, {case.name}"
        yield ratio_row(work, ours["decode_tok_s"], theirs.get("decode_tok_s"), 1.6)
        ours, theirs = once.compare(path, Work(LONG_CONTEXT, 0, repeats=1))
        work = f"prefill of {LONG_CONTEXT}, {case.name}"
        yield ratio_row(work, ours["prefill_tok_s"], theirs.get("prefill_tok_s"), 2.0)


def together(engines: Engines, folder: Path) -> Iterator[Row]:
    """Measure several sequences at once against one alone."""
    for case, path in _cases((cases.LONG,), folder):
        alone = engines.rase(path, Work(64, 64))["decode_tok_s"]
        several = engines.rase(path, Work(64, 64, sequences=TOGETHER))["decode_tok_s"]
        work = f"{TOGETHER} sequences together, {case.name}"
        ratio = several / alone
        yield Row(work, f"{several:.1f} tok/s", "", f"{ratio:.2f} times one alone", "5.0 times", ratio >= 5)


def machine(engines: Engines, folder: Path) -> Iterator[Row]:
    """Measure what part of the machine's speed of reading and multiplying is used."""
    bandwidth, peak = limits.read_bandwidth(engines.threads), limits.int8_peak(engines.threads)
    yield Row("memory read, plain sum", f"{bandwidth:.1f} GB/s")
    yield Row("8-bit products, dot products alone", f"{peak:.0f} GOP/s")
    for case, path in _cases(cases.MAIN[:2], folder):
        yield Row(
            f"weights read in decoding, {case.name}", f"{_share_of_memory(engines, path):.1f} % of memory"
        )
    for case, path in _cases((*cases.MAIN[2:], *cases.LARGER), folder):
        share = _share_of_memory(engines, path)
        yield least_row(f"weights read in decoding, {case.name}", share, 80, "% of memory")
        share = _share_of_products(engines, path, peak)
        yield least_row(f"products in prefill, {case.name}", share, 50, "% of the peak")


def _share_of_memory(engines: Engines, path: Path) -> float:
    """Return the weights read in decoding, in % of what a plain sum reads in the same seconds."""
    bandwidth = limits.read_bandwidth(engines.threads)  # neighbours change it from minute to minute
    speed = engines.rase(path, Work(0, 64, depth=16))["decode_tok_s"]
    bandwidth = max(bandwidth, limits.read_bandwidth(engines.threads))
    return float(100 * speed * step_work(open_gguf(path)).weight_nbytes / 1e9 / bandwidth)


def _share_of_products(engines: Engines, path: Path, peak: float) -> float:
    """Return the speed of the products in prefill, in % of the peak."""
    counts: dict[str, int] = engines.rase(path, Work(512, 0), "--profile")["profile"]
    work = step_work(open_gguf(path))
    operations = 2 * work.prompt_multiply_adds * counts["prefill_tokens"] / counts["gemm_matmul_ns"]
    return 100 * operations / peak


def starting(engines: Engines, folder: Path) -> Iterator[Row]:
    """Measure starts with and without compiled kernels."""
    for case, path in _cases(cases.MAIN[:1], folder):
        warm = [engines.rase(path, Work(16, 1, repeats=1)) for _ in range(3)]
        first = min(run["first_token_s"] for run in warm)
        yield most_row(f"process start to first token, {case.name}", first, 1.0, "s")
        with tempfile.TemporaryDirectory() as cache:
            cold = engines.rase(path, Work(16, 1, repeats=1), RASE_CACHE=cache)
        yield most_row(f"compiling all kernels, {case.name}", cold["first_token_s"] - first, 10.0, "s")


def loading(engines: Engines, folder: Path) -> Iterator[Row]:
    """Measure loading, hash included, and memory."""
    for case, path in _cases((*cases.MAIN[2:3], *cases.LARGER[1:]), folder):
        size = path.stat().st_size
        seconds = min(_load_seconds(path, engines.threads) for _ in range(3))
        yield least_row(f"load, hash and repack, {case.name}", size / seconds / 1e9, 0.5, "GB/s")
    for case, path in _cases(cases.MAIN[2:3], folder):
        peak = engines.rase(path, Work(512, 16, repeats=1))["peak_rss_mb"]
        limit = path.stat().st_size * 1.15 / 1e6 + _kv_megabytes(path, 528) + 250
        yield most_row(f"peak memory at 512 tokens, {case.name}", peak, limit, "MB")


def _load_seconds(path: Path, threads: int) -> float:
    start = time.perf_counter()
    file = open_gguf(path)
    with ByteHashes(len(file.parts)) as hashes:
        decoder = load_decoder(path, "cpu", threads, on_bytes=hashes.see)
        hashes.digests()
    seconds = time.perf_counter() - start
    decoder.close()
    return seconds


def _kv_megabytes(path: Path, tokens: int) -> float:
    from rase_models.architectures import build_program
    from rase_models.backends import load_backend
    from rase_models.backends.base import BLOCK_TOKENS

    block_nbytes = load_backend("cpu").block_nbytes(build_program(open_gguf(path)))
    return -(-tokens // BLOCK_TOKENS) * block_nbytes / 1e6


def busy(engines: Engines, folder: Path) -> Iterator[Row]:
    """Measure decoding while another process takes a core."""
    if engines.threads < 2 or engines.threads < (os.cpu_count() or 1):
        return
    for case, path in _cases(cases.MAIN[:1], folder):
        work = Work(0, 256, depth=16, repeats=5)
        alone = replace(engines, threads=1).rase(path, work)["decode_tok_s"]
        with _Spinner():
            taken = engines.rase(path, work)["decode_tok_s"]
        name = f"decode with one core taken, {case.name}"
        ratio = taken / alone
        yield Row(name, f"{taken:.1f} tok/s", "", f"{ratio:.2f} times one thread", "1.0 times", ratio >= 1)


class _Spinner:
    """A process that keeps a core busy."""

    def __enter__(self) -> None:
        import subprocess
        import sys

        self._process = subprocess.Popen([sys.executable, "-c", "while True: pass"])

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait()


SECTIONS = {
    "speeds": speeds,
    "long": long_context,
    "together": together,
    "machine": machine,
    "types": types,
    "starting": starting,
    "loading": loading,
    "busy": busy,
}
"""By the names that `run.py --only` takes."""
