"""Ops that mix buffers value by value, or by weights that a run has computed."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Scale:
    """out = x * weight * factor; out may be x.

    The weight is as long as a row, or has a value for each of so many equal `parts` of it; None is 1.
    """

    TENSORS: ClassVar[tuple[str, ...]] = ("weight",)
    out: str
    x: str
    weight: str | None = None
    factor: float = 1.0
    parts: int | None = None


@dataclass(frozen=True, slots=True)
class Blend:
    """out_p = x + (y - x) * (weight_p + gate_p) for each of the equal parts of out, as wide as x and y.

    The weight is a tensor and the gate a buffer, both as long as out; one of them may be None, which is 0.
    With a single part out may be x or y.
    """

    TENSORS: ClassVar[tuple[str, ...]] = ("weight",)
    out: str
    x: str
    y: str
    weight: str | None = None
    gate: str | None = None


@dataclass(frozen=True, slots=True)
class MixParts:
    """out_i = base_i + sum over j of (weights[i, j] + offset) * x_j, for equal parts of `length` values.

    The buffer of weights has [parts of out, parts of x] values in a row. base is as wide as out, which may be
    base.
    """

    TENSORS: ClassVar[tuple[str, ...]] = ()
    out: str
    x: str
    weights: str
    base: str
    length: int
    offset: float = 0.0


@dataclass(frozen=True, slots=True)
class Rescale:
    """out = x * sqrt(sum(like²) / (sum(x²) + eps)), for each of the `heads` equal parts of x; out may be x.

    `like` is a buffer as wide as one part.
    """

    TENSORS: ClassVar[tuple[str, ...]] = ()
    out: str
    x: str
    like: str
    eps: float
    heads: int = 1


@dataclass(frozen=True, slots=True)
class Sparsify:
    """out = max(x - m - deviations * s, 0), where m is the mean and s the standard deviation of a row.

    s² is sum((x - m)²) / (width - 1). out may be x.
    """

    TENSORS: ClassVar[tuple[str, ...]] = ()
    out: str
    x: str
    deviations: float


@dataclass(frozen=True, slots=True)
class Clamp:
    """out = max(-limit, min(x, limit)); out may be x."""

    TENSORS: ClassVar[tuple[str, ...]] = ()
    out: str
    x: str
    limit: float


@dataclass(frozen=True, slots=True)
class Xielu:
    """out = above * max(x, 0)² + below * (e^min(x, 0) - 1 - min(x, 0)) + slope * x; out may be x.

    https://arxiv.org/abs/2411.13010
    """

    TENSORS: ClassVar[tuple[str, ...]] = ()
    out: str
    x: str
    above: float
    below: float
    slope: float


@dataclass(frozen=True, slots=True)
class AddDots:
    """out_h = x_h + sum(q_h * k_h * weight_h) * v_h for each of the `heads` equal parts; out may be x.

    The weight is as long as a row.
    """

    TENSORS: ClassVar[tuple[str, ...]] = ("weight",)
    out: str
    x: str
    q: str
    k: str
    v: str
    weight: str
    heads: int
