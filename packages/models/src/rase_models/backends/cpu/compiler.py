"""Compiles kernels with numba to object code that needs neither numba nor Python to run.

numba is imported by the first compilation, not by this module.
"""

import gc
import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, cast

import llvmlite.binding as llvm

from rase_models.backends.cpu.kernel_key import KernelKey
from rase_models.backends.cpu.kernels import BUILDERS
from rase_models.backends.cpu.machine_code import target_machine

Kernel = Callable[[int, int, int, int], None]
"""A kernel's Python source: (thread, threads, op, context), in the subset of Python that numba compiles."""

_PYTHON_SYMBOLS = ("Py", "numba_", "NRT_", "_Py")


def build(key: KernelKey) -> Kernel:
    """Return the Python source of a kernel."""
    module, _, attribute = BUILDERS[key.name].partition(":")
    builder: Callable[..., Kernel] = getattr(importlib.import_module(module), attribute)
    return builder(*key.parameters)


def target() -> tuple[str, str]:
    """Return the CPU that kernels are compiled for, by LLVM's name, and its features.

    It is this machine's, or what NUMBA_CPU_NAME and NUMBA_CPU_FEATURES say.
    """
    name, features = os.environ.get("NUMBA_CPU_NAME"), os.environ.get("NUMBA_CPU_FEATURES")
    if features is None or not (name or features):
        features = "" if name == "generic" else llvm.get_host_cpu_features().flatten()
    return name or llvm.get_host_cpu_name(), features


def compile_kernel(key: KernelKey, cpu: str, features: str) -> bytes:
    """Return object code that defines `key.symbol`, and nothing else that is visible, for a CPU."""
    machine = target_machine(cpu, features)
    module = _optimised_module(key, machine)
    _require_no_python(module, key)
    return bytes(machine.emit_object(module))


def _optimised_module(key: KernelKey, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    """Return the LLVM IR of a kernel and of all that it calls, optimised once, as a whole."""
    from numba import cfunc, int64, void

    with _without_machine_code():
        compiled = cfunc(void(int64, int64, int64, int64), error_model="numpy")(build(key))
    module = llvm.parse_assembly(compiled.inspect_llvm())
    module.get_function(compiled.native_name).name = key.symbol
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and value.name != key.symbol:
            value.linkage = "internal"
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    builder.getModulePassManager().run(module, builder)
    return module


@contextmanager
def _without_machine_code() -> Iterator[None]:
    """Keep numba from optimising every function on its own and making machine code of it, which nobody calls.

    Holds numba's compiler lock, so that nobody else's functions are compiled so.
    """
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.registry import cpu_target

    with global_compiler_lock:
        codegen = cast(Any, cpu_target.target_context.codegen())
        codegen._library_class, codegen.set_env = _intermediate_library(), _set_no_environment
        collects = gc.isenabled()
        gc.disable()  # compilers make millions of objects that live until the end
        try:
            yield
        finally:
            del codegen._library_class, codegen.set_env
            if collects:
                gc.enable()


def _set_no_environment(name: str, environment: object) -> None:
    """Leave out what functions of Python objects need where they are called."""


@cache
def _intermediate_library() -> type:
    """Return the class of numba's libraries that stay LLVM IR, to be linked into others."""
    from numba.core.codegen import JITCodeLibrary

    class IntermediateLibrary(JITCodeLibrary):
        def _optimize_functions(self, ll_module: Any) -> None:
            ll_module.data_layout = self._codegen._data_layout

        def _optimize_final_module(self) -> None:
            pass

        def _finalize_final_module(self) -> None:
            self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
            self._verify_declare_only_symbols()  # type: ignore[no-untyped-call]
            self._finalized = True

        def get_pointer_to_function(self, name: str) -> int:
            self._ensure_finalized()  # type: ignore[no-untyped-call]
            return 0

    return IntermediateLibrary


def _require_no_python(module: llvm.ModuleRef, key: KernelKey) -> None:
    """Refuse a kernel that can raise: it would call into Python, without the GIL."""
    called = [f.name for f in module.functions if f.is_declaration and f.name.startswith(_PYTHON_SYMBOLS)]
    if called:
        raise RuntimeError(f"kernel {key.symbol} can raise an exception: it refers to {', '.join(called)}")
