"""Ops that carry a state from one row of a sequence to the next."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Shift:
    """out[t] = x[t - 1], where t counts the rows of a sequence; 0 for its first row.

    The state is the last row of x.
    """

    TENSORS: ClassVar[tuple[str, ...]] = ()
    out: str
    x: str
    state: int


@dataclass(frozen=True, slots=True)
class SelectiveScan:
    """out = h @ c + skip * x, after h = exp(step * decay) * h + step * x ⊗ b (Mamba).

    x, step and out have a value for each channel, b and c one for each of `size` places of a channel's
    state. The decay is [channels, size], the skip [channels]. h is [channels, size], 0 before a sequence.
    https://arxiv.org/abs/2312.00752
    """

    TENSORS: ClassVar[tuple[str, ...]] = ("decay", "skip")
    out: str
    x: str
    b: str
    c: str
    step: str
    decay: str
    skip: str
    state: int


@dataclass(frozen=True, slots=True)
class KeyedScan:
    """out = h.T @ q * scale, after h = keep * h + b ⊗ (h.T @ a) + k ⊗ v, for each of `heads` equal parts.

    keep, a, b, k and q have a value for each key of a head, v and out one for each value. h is
    [keys, values], 0 before a sequence; keep multiplies its rows. a and b come together or not at all. With
    `reads_before`, q reads h as it was before. RWKV 6 (https://arxiv.org/abs/2404.05892) and 7
    (https://arxiv.org/abs/2503.14456), gated linear attention and delta rules that forget key by key.
    """

    TENSORS: ClassVar[tuple[str, ...]] = ()
    out: str
    q: str
    k: str
    v: str
    keep: str
    heads: int
    state: int
    a: str | None = None
    b: str | None = None
    scale: float = 1.0
    reads_before: bool = False


@dataclass(frozen=True, slots=True)
class ShortConv:
    """out[t] = sum over j of weight[:, j] * x[t - taps + 1 + j], plus bias, for every channel by itself.

    t counts the rows of a sequence, before whose first row x is 0. The weight is [width, taps], the state
    the last taps - 1 rows of x.
    """

    TENSORS: ClassVar[tuple[str, ...]] = ("weight", "bias")
    out: str
    x: str
    weight: str
    bias: str | None
    taps: int
    state: int


@dataclass(frozen=True, slots=True)
class StateScan:
    """out = h @ c + skip * x, after h = exp(step * decay) * h + step * x ⊗ b, for each of `heads` (Mamba 2).

    x and out have `heads` parts, step, decay and skip a value for each of them; b and c have `groups` parts,
    of which head i reads part i // (heads / groups). h is [part of x, part of b], 0 before a sequence.
    """

    TENSORS: ClassVar[tuple[str, ...]] = ("decay", "skip")
    out: str
    x: str
    b: str
    c: str
    step: str
    decay: str
    skip: str
    heads: int
    groups: int
    state: int


@dataclass(frozen=True, slots=True)
class GatedDelta:
    """out = h.T @ q / sqrt(key length) with h updated for each of `heads`, by a gated delta rule.

    First q and k become x / sqrt(sum(x²) + eps). Then h = exp(step * decay) * h, and after that
    h = h + k ⊗ (beta * (v - h.T @ k)). v and out have `heads` parts, step, beta and decay a value for each; q
    and k have `key_heads` parts, of which head i reads part i % key_heads. h is [key, value], 0 before a
    sequence. https://arxiv.org/abs/2412.06464
    """

    TENSORS: ClassVar[tuple[str, ...]] = ("decay",)
    out: str
    q: str
    k: str
    v: str
    step: str
    beta: str
    decay: str
    heads: int
    key_heads: int
    eps: float
    state: int
