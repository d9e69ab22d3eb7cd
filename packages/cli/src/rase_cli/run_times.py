"""Where the time of forward passes went, from the counters of a backend."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rase_models.step_work import StepWork

Line = tuple[str, str, str, str]
COLUMNS = ("time", "milliseconds", "share", "speed")


def lines(counts: Mapping[str, int], weights: Path) -> Iterator[Line]:
    """Give the rows of a table: prompts, then steps of decoding, each as a whole and in parts.

    Speeds are GOP/s, two for each multiplication by a weight, and GB/s of weights as in the file.
    """
    from rase_models.gguf import open_gguf
    from rase_models.step_work import step_work

    work = step_work(open_gguf(weights))
    if forward := counts["prefill_forward_ns"]:
        matmul = counts["gemm_matmul_ns"]
        yield _line("prefill", forward, forward, f"{_rate(counts['prefill_tokens'], forward)} tok/s")
        yield _line("  matrices", matmul, forward, f"{_gops(counts, work):.0f} GOP/s")
        yield from _rest(counts["attn_blocked_ns"], matmul, forward)
    if forward := counts["decode_forward_ns"]:
        matvec = counts["decode_matvec_ns"]
        yield _line("decode", forward, forward, f"{_rate(counts['decode_steps'], forward)} steps/s")
        yield _line("  matrices", matvec, forward, f"{_gbs(counts, work):.1f} GB/s")
        yield from _rest(counts["decode_attn_ns"], matvec, forward)


def _rest(attention: int, matrices: int, forward: int) -> Iterator[Line]:
    yield _line("  attention", attention, forward)
    yield _line("  other", forward - attention - matrices, forward)


def _line(name: str, nanoseconds: int, whole: int, speed: str = "") -> Line:
    return name, f"{nanoseconds / 1e6:.1f}", f"{100 * nanoseconds / whole:.1f} %", speed


def _rate(count: int, nanoseconds: int) -> str:
    return f"{count / nanoseconds * 1e9:.1f}"


def _gops(counts: Mapping[str, int], work: "StepWork") -> float:
    operations = 2 * work.prompt_multiply_adds * counts["prefill_tokens"]
    return operations / max(counts["gemm_matmul_ns"], 1)


def _gbs(counts: Mapping[str, int], work: "StepWork") -> float:
    return work.weight_nbytes * counts["decode_steps"] / max(counts["decode_matvec_ns"], 1)
