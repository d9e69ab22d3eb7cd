"""Kernels for systems that are not this one: compiled here, and what they would be linked to."""

import json
import subprocess
import sys
from typing import NamedTuple

import pytest
from rase_models.backends.cpu.kernels import BUILDERS


class System(NamedTuple):
    """Another system, and the functions of it that kernels may call."""

    triple: str
    cpu: str
    instruction_set: str
    platform: str
    provided: frozenset[str]


MACOS = System("arm64-apple-darwin", "apple-m1", "neon_dotprod", "darwin", frozenset({"sched_yield"}))
WINDOWS = System("x86_64-pc-windows-msvc", "haswell", "avx2", "win32", frozenset({"SwitchToThread"}))
OLD_WINDOWS = WINDOWS._replace(cpu="x86-64", instruction_set="portable")
SYSTEMS = pytest.mark.parametrize("system", [MACOS, WINDOWS, OLD_WINDOWS], ids=["macos", "windows", "old"])
TWO_SYSTEMS = pytest.mark.parametrize("system", [MACOS, WINDOWS], ids=["macos", "windows"])

WAITING = [("run", 0), ("worker", 0), ("pauses",)]
"""What calls the system. 0: kernels cannot sleep there, Python does it."""
PARAMETERS: dict[str, tuple[str | int, ...]] = {
    "activate": ("silu",),
    "attend": ("f16",),
    "embed": ("q4_k", 0),
    "expert_linear": ("q4_k",),
    "gated_activation": ("silu", 1),
    "gated_experts": ("q4_k", "q4_k", "silu", 1),
    "gated_linear": ("q4_k", "silu"),
    "head_linear": ("q8_0x2",),
    "linear": ("q6_k",),
    "prepare_heads": ("f16",),
    "repack_matrix": ("q4_k",),
    "run": (0,),
    "store_kv": ("q8_0",),
    "worker": (0,),
}
EVERY = [(name, *PARAMETERS.get(name, ())) for name in BUILDERS]

COMPILE = """
import importlib, json, re, sys, types
triple, cpu, instruction_set, platform, keys = sys.argv[1:]
from rase_models.backends.cpu import compiler
from rase_models.backends.cpu.instruction_set import INSTRUCTION_SETS
from rase_models.backends.cpu.kernel_key import KernelKey
from rase_models.backends.cpu.kernels import interpreter
interpreter.sys = types.SimpleNamespace(platform=platform)
operation = importlib.import_module("rase_models.backends.cpu.simd.operation")
operation.instruction_set = lambda: INSTRUCTION_SETS[instruction_set]
import llvmlite.binding as llvm
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
target = llvm.Target.from_triple(triple)
machine = target.create_target_machine(cpu=cpu, features="", opt=3, codemodel="jitdefault", jit=True)
found = {}
for name, *parameters in json.loads(keys):
    module = compiler._optimised_module(KernelKey(name, tuple(parameters)), machine)
    module.triple, module.data_layout = triple, str(machine.target_data)
    text = machine.emit_assembly(module)
    assert machine.emit_object(module)
    called = re.findall(r"^\\s+(?:bl?|callq?|jmpq?)\\s+([\\w$.@?]+)", text, re.M)
    called += re.findall(r"\\$([A-Za-z_?][\\w$.@?]*)", text)
    called += re.findall(r"([\\w$.?]+)@(?:GOT|PLT)", text)
    found[name] = sorted(set(called) - set(re.findall(r"^([\\w$.@?]+):", text, re.M)))
print(json.dumps(found))
"""


def symbols(system: System, keys: list[tuple[str | int, ...]]) -> dict[str, set[str]]:
    """Compile kernels for a system; return what each calls that it does not define itself."""
    command = [sys.executable, "-c", COMPILE, *system[:4], json.dumps(keys)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, list[str]] = json.loads(ran.stdout)
    return {name: {symbol.removeprefix("_") for symbol in called} for name, called in found.items()}


@TWO_SYSTEMS
def test_kernels_that_wait_call_what_their_system_has(system: System) -> None:
    called = symbols(system, WAITING)
    assert called["run"] == called["worker"] == system.provided
    assert called["pauses"] == set()


@pytest.mark.slow
@SYSTEMS
def test_no_kernel_calls_anything_else(system: System) -> None:
    called = symbols(system, [key for key in EVERY if key not in WAITING])
    assert {name: names for name, names in called.items() if names} == {}
