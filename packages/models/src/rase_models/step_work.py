"""What a step of a model costs: bytes of weights and multiply-adds, to compare with a machine's limits."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rase_models.architectures import build_program
from rase_models.gguf import GgufFile
from rase_models.program import Embed, MoeFfn, Op, Program, SelectOutputs, TensorSlice
from rase_models.program.ops import tensors_of


@dataclass(frozen=True, slots=True)
class StepWork:
    """The work of a step for one token, keys and values of earlier tokens aside.

    Attributes:
        weight_nbytes: bytes, as in the file, of the weights that are read; of experts only those of the
            chosen ones, and of an embedding nothing.
        multiply_adds: multiplications by weights.
        prompt_multiply_adds: those for a token whose logits are not wanted.
    """

    weight_nbytes: int
    multiply_adds: int
    prompt_multiply_adds: int


def step_work(file: GgufFile) -> StepWork:
    """Return the work of a model. Raises what `build_program` does."""
    program = build_program(file)
    nbytes = weights = prompt = 0.0
    for op in program.ops:
        if isinstance(op, Embed):
            continue
        if isinstance(op, SelectOutputs):
            prompt = weights
        for name, share in _shares(program, op, file):
            info = file.tensors[name]
            nbytes += share * info.nbytes
            weights += share * float(np.prod(info.shape))
    return StepWork(round(nbytes), round(weights), round(prompt))


def _shares(program: Program, op: Op, file: GgufFile) -> Iterator[tuple[str, float]]:
    """Give the tensors that an op reads, and which part of each."""
    for name in tensors_of(op):
        part = program.slices.get(name)
        tensor = name if part is None else part.tensor
        share = 1.0 if part is None else _part(part, file.tensors[tensor].shape)
        if isinstance(op, MoeFfn) and name != op.router:
            share *= op.experts_used / op.experts
        yield tensor, share


def _part(part: TensorSlice, shape: tuple[int, ...]) -> float:
    rows = shape[-2] if len(shape) > 1 else shape[0]
    return (part.last - part.first) / rows
