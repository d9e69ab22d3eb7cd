"""Prints docs/architectures.md, made from the code: run it with its output sent there."""

import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from rase_models.architectures import ARCHITECTURES, build_program
from rase_models.architectures.left_out import LEFT_OUT
from rase_models.gguf import open_gguf
from rase_models.program import (
    Activate,
    Attention,
    Embed,
    GatedDelta,
    KeyedScan,
    LayerNorm,
    Linear,
    MixParts,
    MoeFfn,
    Op,
    Program,
    RmsNorm,
    Rotate,
    SelectiveScan,
    ShortConv,
    SoftCap,
    StateScan,
)
from rase_models.testing_sketches import sketch, write_gguf

HEAD = """# Architectures

What rase runs, by the name that a GGUF file gives in `general.architecture`; `rase inspect` shows it. The CPU
backend and the numpy reference run all of them, another backend those whose ops it has, and all were checked
against values that an independent engine computed. Tensors that a file holds and its architecture does not
know are refused: such a model would not compute what its maker meant. Of models that also read images or
sound, rase runs the text.

Made by `python docs/make_architectures.py > docs/architectures.md`: what layers are made of is read off the
Program of a small model of random weights.

| architecture | models | layers | positions |
|---|---|---|---|"""

LEFT_OUT_HEAD = """
## Left out

Architectures of GGUF files that rase refuses, and why; `UnsupportedArchitecture` says the same.

| architecture | why |
|---|---|"""

GATES = ("blk.0.ffn_gate.weight", "blk.0.ffn_up.weight[0:")
"""The matrix of gates, or the part of one that holds gates too."""

LATENT = "attn_kv_a_norm.weight"
"""The end of the name of the norm of latents."""

MIXING: Mapping[str, Callable[[Op], bool]] = {
    "attention over latents": lambda op: isinstance(op, RmsNorm) and str(op.weight).endswith(LATENT),
    "attention": lambda op: isinstance(op, Attention),
    "windows": lambda op: isinstance(op, Attention) and op.window is not None,
    "sinks": lambda op: isinstance(op, Attention) and op.sinks is not None,
    "short convolutions": lambda op: isinstance(op, ShortConv),
    "state space": lambda op: isinstance(op, StateScan),
    "state space of channels": lambda op: isinstance(op, SelectiveScan),
    "gated delta rule": lambda op: isinstance(op, GatedDelta),
    "states kept key by key": lambda op: isinstance(op, KeyedScan),
    "several streams of rows": lambda op: isinstance(op, MixParts),
    "gated feed-forward": lambda op: isinstance(op, Linear) and op.weight.startswith(GATES),
    "plain feed-forward": lambda op: isinstance(op, Activate) and op.out == "up",
    "experts": lambda op: isinstance(op, MoeFfn),
    "a shared expert": lambda op: getattr(op, "out", None) == "shared",
    "RMS norms": lambda op: isinstance(op, RmsNorm),
    "layer norms": lambda op: isinstance(op, LayerNorm),
    "soft caps": lambda op: isinstance(op, SoftCap),
}
"""What layers are made of, by the ops that show it."""


def program_of(name: str) -> Program:
    """Return the Program of a small model of an architecture."""
    with tempfile.TemporaryDirectory() as folder:
        path = write_gguf(Path(folder) / "model.gguf", name, *sketch(name, layers=4))
        return build_program(open_gguf(path))


def layers(ops: Iterable[Op]) -> str:
    """Say what layers are made of."""
    known = list(ops)
    found = [what for what, shows in MIXING.items() if any(map(shows, known))]
    if "attention over latents" in found:
        found.remove("attention")
    return ", ".join(found)


def positions(program: Program) -> str:
    """Say how positions come in."""
    if any(isinstance(op, Embed) and op.by_position for op in program.ops):
        return "learned"
    if any(isinstance(op, Attention) and op.slopes for op in program.ops):
        return "slopes (ALiBi)"
    turned = sum(isinstance(op, Rotate) for op in program.ops) // 2
    if not turned:
        return "none"
    return "rotary" if turned == len(program.kv_layers) else "rotary in some layers"


def row(name: str) -> str:
    """Return the table's row of an architecture."""
    about = sys.modules[ARCHITECTURES[name].__module__].__doc__ or ""
    models = about.split("\n")[0].partition(": ")[2].rstrip(".")
    program = program_of(name)
    return f"| {name} | {models} | {layers(program.ops)} | {positions(program)} |"


if __name__ == "__main__":
    left_out = (f"| {name} | {reason} |" for name, reason in sorted(LEFT_OUT.items()))
    sys.stdout.write("\n".join((HEAD, *map(row, sorted(ARCHITECTURES)), LEFT_OUT_HEAD, *left_out, "")))
