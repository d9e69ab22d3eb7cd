"""Which vector instructions the kernels may use, decided before anything is emitted.

An LLVM intrinsic that the target lacks aborts the process, so the emitters ask here first. Nothing here
compiles, and numba is not imported.
"""

import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum


class Architecture(Enum):
    """The processor family, which decides spin hints and counters."""

    X86 = "x86"
    ARM = "arm"
    OTHER = "other"


class Weights(Enum):
    """8-bit weights that a dot product takes."""

    ANY_UNSIGNED = "0..255"
    SMALL_UNSIGNED = "0..127, and -128..127 at a price"
    SIGNED = "-128..127"


@dataclass(frozen=True, slots=True)
class InstructionSet:
    """A set of vector instructions.

    Attributes:
        name: its key in `INSTRUCTION_SETS`.
        architecture: the processor family.
        features: the LLVM features that a target must have.
        int8_dot: the emitter of int8 dot products, a key of `dot.DOTS`.
        lookup: the emitter of table lookups, a key of `lookup.LOOKUPS`.
        weights: the weights that the dot product is best at.
        cheap_rows: as many rows of a step take hardly longer than one.
        wide_registers: the registers hold 32 columns of 16 rows of weights and a dozen accumulators.
        has_fma: float32 multiply-add with one rounding is an instruction.
        has_half: float16 conversions are instructions.
        weights_hint: the locality of prefetches of weights, see `Code.prefetch`.
        kv_hint: the locality of prefetches of keys and values.
    """

    name: str
    architecture: Architecture
    features: frozenset[str]
    int8_dot: str
    lookup: str
    weights: Weights
    cheap_rows: int = 4
    wide_registers: bool = False
    has_fma: bool = True
    has_half: bool = True
    weights_hint: int = 2
    kv_hint: int = 2


_AMD = "sse4a"  # a feature that only AMD's processors have
_AVX2 = frozenset({"avx2", "fma", "f16c"})
_AVX512 = _AVX2 | {"avx512f", "avx512bw", "avx512dq", "avx512vl"}

INSTRUCTION_SETS: Mapping[str, InstructionSet] = {
    entry.name: entry
    for entry in (
        InstructionSet(
            "avx512_vnni",
            Architecture.X86,
            _AVX512 | {"avx512vnni"},
            "vpdpbusd_512",
            "pshufb_512",
            Weights.ANY_UNSIGNED,
            wide_registers=True,
        ),
        InstructionSet(
            "avx_vnni",
            Architecture.X86,
            _AVX2 | {"avxvnni"},
            "vpdpbusd_256",
            "pshufb_256",
            Weights.ANY_UNSIGNED,
        ),
        InstructionSet("avx2", Architecture.X86, _AVX2, "pmaddubsw", "pshufb_256", Weights.SMALL_UNSIGNED),
        InstructionSet(
            "neon_dotprod",
            Architecture.ARM,
            frozenset({"neon", "dotprod"}),
            "sdot",
            "tbl",
            Weights.SIGNED,
        ),
        InstructionSet(
            "portable",
            Architecture.OTHER,
            frozenset(),
            "shifts",
            "selects",
            Weights.SIGNED,
            cheap_rows=1,
            has_fma=False,
            has_half=False,
        ),
    )
}
"""Best first: the first one whose features a target has is chosen."""

_V3 = _AVX2
_V4_VNNI = _AVX512 | {"avx512vnni"}
_NEON = frozenset({"neon", "dotprod"})
_NAMED_CPUS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(
        ("haswell", "broadwell", "skylake", "x86-64-v3", "znver1", "znver2", "znver3"),
        _V3,
    ),
    **dict.fromkeys(("skylake-avx512", "x86-64-v4"), _AVX512),
    **dict.fromkeys(
        ("alderlake", "raptorlake", "meteorlake", "arrowlake", "lunarlake", "sierraforest"),
        _AVX2 | {"avxvnni"},
    ),
    **dict.fromkeys(
        (
            "cascadelake",
            "icelake-client",
            "icelake-server",
            "tigerlake",
            "sapphirerapids",
            "znver4",
            "znver5",
        ),
        _V4_VNNI,
    ),
    **dict.fromkeys(("apple-m1", "apple-m2", "apple-m3", "apple-m4", "neoverse-n1", "neoverse-v1"), _NEON),
}
"""Features that LLVM implies by a CPU's name; llvmlite cannot be asked for them."""


def choose(features: frozenset[str], architecture: Architecture) -> InstructionSet:
    """Return the best instruction set whose features are all present."""
    for entry in INSTRUCTION_SETS.values():
        if entry.architecture is architecture and entry.features <= features:
            # past the second level Intel's read at a third of the speed, and AMD's a little faster
            return replace(entry, weights_hint=1, kv_hint=3) if _AMD in features else entry
    portable = INSTRUCTION_SETS["portable"]
    return replace(
        portable,
        architecture=architecture,
        has_fma="fma" in features or architecture is Architecture.ARM,
        has_half="f16c" in features or architecture is Architecture.ARM,
    )


@functools.cache
def instruction_set() -> InstructionSet:
    """Return the instruction set of the kernels of this process.

    It follows the target of numba: the host, or what NUMBA_CPU_NAME and NUMBA_CPU_FEATURES say.
    """
    return choose(target_features(), target_architecture())


def target_architecture() -> Architecture:
    """Return the processor family of the process."""
    from llvmlite import binding

    machine = binding.get_process_triple().partition("-")[0]
    if machine in ("x86_64", "i386", "i686", "amd64"):
        return Architecture.X86
    return Architecture.ARM if machine.startswith(("aarch64", "arm64")) else Architecture.OTHER


def target_features() -> frozenset[str]:
    """Return the LLVM features of the target: the host's, unless the environment names another CPU."""
    from llvmlite import binding

    name = os.environ.get("NUMBA_CPU_NAME")
    listed = os.environ.get("NUMBA_CPU_FEATURES")
    implied = _NAMED_CPUS.get(name or binding.get_host_cpu_name(), frozenset())
    if not (name or listed) or (listed is None and name != "generic"):
        # As numba does it: a name alone leaves the host's features in force.
        present = {feature for feature, on in binding.get_host_cpu_features().items() if on}
        return implied | present
    return _apply(implied if name else frozenset(), listed or "")


def _apply(implied: frozenset[str], listed: str) -> frozenset[str]:
    """Add and take away the features of a list such as "+avx2,-fma"."""
    flags = [flag.strip() for flag in listed.split(",") if flag.strip()]
    removed = {flag[1:] for flag in flags if flag.startswith("-")}
    return (implied | {flag.lstrip("+") for flag in flags if not flag.startswith("-")}) - removed
