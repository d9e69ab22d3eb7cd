"""Several streams of rows, of which layers change one and predict the others (AltUp).

https://arxiv.org/abs/2301.13310. A layer predicts all streams, works on the active one, and corrects all by
how far its prediction of that one was off. The streams are parts of one buffer.
"""

from dataclasses import dataclass

from rase_models.architectures.builder import ProgramBuilder
from rase_models.program import Add, HeadLinear, MixParts, Rescale, SoftCap

_LEAST_SQUARE = 1e-12


@dataclass(frozen=True, slots=True)
class Streams:
    """How many streams there are, and which of them is active."""

    count: int
    active: int


def read_streams(b: ProgramBuilder) -> Streams:
    """Read the number of streams and the active one."""
    count = b.keys.count("altup.num_inputs", 4, most=64)
    if count < 2:
        raise b.keys.error("altup.num_inputs", "at least 2", count)
    return Streams(count, b.keys.count("altup.active_idx", 0, most=count - 1))


def split_streams(b: ProgramBuilder, streams: Streams, rows: str) -> str:
    """Emit all streams: the rows, and products of them that are as long."""
    width, others = b.width(rows), streams.count - 1
    if streams.active:
        raise b.keys.error("altup.active_idx", "the first stream", streams.active)
    repeated = b.copy_parts("others", rows, others, width, width, shared=True)
    made = _products(b, streams, "altup_proj", repeated, rows)
    out = b.copy_parts("streams", rows, 1, streams.count * width, width)
    return b.copy_parts(out, made, 1, streams.count * width, others * width, out_first=width)


def merge_streams(b: ProgramBuilder, streams: Streams, x: str) -> str:
    """Emit the mean of the first stream and of products of the others, which are as long."""
    width = b.width(x) // streams.count
    others = streams.count - 1
    first = b.copy_parts("merged", x, 1, width, width)
    rest = b.copy_parts("others", x, 1, others * width, others * width, first=width)
    made = _products(b, streams, "altup_unembd_proj", rest, first)
    for place in range(others):
        part = b.copy_parts("part", made, 1, width, width, first=place * width)
        b.emit(Add(first, first, part, 1.0 if place < others - 1 else 1 / streams.count))
    return first


def _products(b: ProgramBuilder, streams: Streams, name: str, x: str, like: str) -> str:
    """Emit the product of every stream but the active one with a matrix of its own, as long as `like`."""
    width, others = b.width(like), streams.count - 1
    weight = b.tensors.matrix(f"{name}.weight", others, width, width)
    out = b.buffer("made", others * width)
    b.emit(HeadLinear(out, x, weight, others))
    b.emit(Rescale(out, out, like, _LEAST_SQUARE, others))
    return out


def active_stream(b: ProgramBuilder, streams: Streams, out: str, x: str) -> str:
    """Emit the active stream alone."""
    width = b.width(x) // streams.count
    return b.copy_parts(out, x, 1, width, width, first=streams.active * width)


def predict_streams(b: ProgramBuilder, streams: Streams, layer: int, x: str) -> str:
    """Emit the streams plus mixtures of them, by weights that the active one gives."""
    width, count = b.width(x) // streams.count, streams.count
    weights = _weights(b, streams, layer, active_stream(b, streams, "active", x), "predict", count * count)
    out = b.buffer("predictions", count * width)
    b.emit(MixParts(out, x, weights, x, width))
    return out


def correct_streams(b: ProgramBuilder, streams: Streams, layer: int, predictions: str, found: str) -> str:
    """Emit the predictions plus what the active stream was found to be beyond its own, times weights."""
    weights = _weights(b, streams, layer, found, "correct", streams.count)
    error = active_stream(b, streams, "error", predictions)
    b.emit(Add(error, error, error, -0.5))
    b.emit(Add(error, error, found))
    out = b.buffer("streams", b.width(predictions))
    b.emit(MixParts(out, error, weights, predictions, b.width(found), 1.0))
    return out


def _weights(b: ProgramBuilder, streams: Streams, layer: int, x: str, kind: str, width: int) -> str:
    prefix = f"blk.{layer}.altup_"
    normed = b.norm("router_input", x, f"{prefix}router_norm")
    shares = b.linear("modalities", normed, f"{prefix}router", streams.count, factor=1 / b.width(x))
    b.emit(SoftCap(shares, 1.0))
    return b.linear("coefficients", shares, f"{prefix}{kind}_coef", width)


def add_to_others(b: ProgramBuilder, streams: Streams, x: str, update: str) -> None:
    """Add an update to all streams but the first."""
    width, others = b.width(update), streams.count - 1
    rest = b.copy_parts("others", x, 1, others * width, others * width, first=width)
    repeated = b.copy_parts("updates", update, others, width, width, shared=True)
    b.emit(Add(rest, rest, repeated))
    b.copy_parts(x, rest, 1, streams.count * width, others * width, out_first=width)
