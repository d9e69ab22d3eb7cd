"""Programs of a few ops over random weights, run on the CPU and by the reference backend, for tests."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rase_models.backends.base import Rows
from rase_models.backends.reference import ReferenceBackend
from rase_models.gguf import TensorInfo, Weight
from rase_models.gguf.types import GgmlType
from rase_models.kv_type import KvType
from rase_models.program import Embed, KvLayer, Linear, Op, Program, SelectOutputs, TensorSlice

Floats = NDArray[np.float32]

TOKENS = 40
_TABLE_BLOCKS, _RESERVED_BLOCKS = 12, 64


def weight(name: str, values: Floats) -> Weight:
    """Return a float32 weight as a file would give it."""
    data = np.ascontiguousarray(values, np.float32)
    info = TensorInfo(name, GgmlType.F32, data.shape, 0, data.nbytes)
    return Weight(info, data.reshape(-1).view(np.uint8))


def normal(seed: int, *shape: int, scale: float = 1.0) -> Floats:
    """Return normally distributed numbers."""
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype(np.float32)


def rows_of(sequences: Sequence[tuple[int, int]], outputs: Sequence[int] | None = None) -> Rows:
    """Return rows of sequences of (start, count), each with its own 12 blocks; all are outputs by default."""
    owners = np.repeat(np.arange(len(sequences)), [count for _, count in sequences]).astype(np.int32)
    positions = np.concatenate([np.arange(start, start + count) for start, count in sequences])
    tables = np.arange(len(sequences) * _TABLE_BLOCKS).reshape(-1, _TABLE_BLOCKS)[:, ::-1]
    tokens = (positions * 7 + owners * 3) % TOKENS
    wanted = range(len(owners)) if outputs is None else outputs
    return Rows(
        owners,
        positions.astype(np.int32),
        tokens.astype(np.int32),
        np.array(list(wanted), np.int32),
        tables[None].astype(np.int32),
    )


class OpCase:
    """A Program that looks `x` up, executes ops, and gives a buffer as its logits."""

    def __init__(
        self,
        width: int,
        ops: Sequence[Op],
        buffers: Mapping[str, int],
        result: str,
        weights: Mapping[str, Floats],
        kv_layers: tuple[KvLayer, ...] = (),
        slices: Mapping[str, TensorSlice] | None = None,
    ) -> None:
        out = {"x": width, **buffers}[result]
        self.weights = {"table": normal(1, TOKENS, width), "same": np.eye(out, dtype=np.float32), **weights}
        every = (
            Embed("x", "table"),
            *ops,
            SelectOutputs("selected", result),
            Linear("logits", "selected", "same"),
        )
        widths = {"x": width, "selected": out, "logits": out, **buffers}
        self.program = Program("test", out, 4096, every, widths, kv_layers, slices or {})

    def stream(self) -> Iterator[Weight]:
        """Give the weights in order of their names."""
        for name, values in sorted(self.weights.items()):
            yield weight(name, values)

    def on_cpu(
        self, *runs: Rows, threads: int = 2, fused: bool = True, kv_type: KvType = KvType.F16
    ) -> Floats:
        """Return the logits of the last run."""
        from rase_models.backends.cpu.runner import CpuRunner

        runner = CpuRunner(self.program, self.stream(), threads, fused=fused, kv_type=kv_type)
        try:
            for group in range(len(self.program.kv_groups)):
                runner.reserve(group, _RESERVED_BLOCKS)
            return [runner.run(rows) for rows in runs][-1]
        finally:
            runner.close()

    def by_reference(self, *runs: Rows) -> Floats:
        """Return what the reference backend computes."""
        runner = ReferenceBackend().load(self.program, self.stream())
        for group in range(len(self.program.kv_groups)):
            runner.reserve(group, _RESERVED_BLOCKS)
        return [runner.run(rows) for rows in runs][-1]

    def check(
        self, *runs: Rows, tolerance: float = 2e-5, error: float | None = None, kv_type: KvType = KvType.F16
    ) -> None:
        """Compare with the reference, and the unfused form with the fused one, bit for bit.

        `tolerance` is for each value, `error` the normalised squared error that all may have together.
        """
        fused = self.on_cpu(*runs, kv_type=kv_type)
        np.testing.assert_array_equal(self.on_cpu(*runs, fused=False, kv_type=kv_type), fused)
        np.testing.assert_array_equal(self.on_cpu(*runs, threads=1, kv_type=kv_type), fused)
        reference = self.by_reference(*runs)
        np.testing.assert_allclose(fused, reference, rtol=tolerance, atol=tolerance)
        if error is not None:
            assert np.square(fused - reference).sum() <= error * np.square(reference).sum()
