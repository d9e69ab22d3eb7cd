"""Object code in memory: linked by LLVM, called by address. Knows llvmlite, not numba."""

import ctypes
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import llvmlite.binding as llvm

Entry: TypeAlias = Callable[[int, int, int, int], None]
"""A kernel as a Python callable; the GIL is free while it runs."""

_Function = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


def target_machine(cpu: str, features: str) -> llvm.TargetMachine:
    """Return LLVM's code generator for a CPU of this machine's kind."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=cpu, features=features, opt=3, codemodel="jitdefault", jit=True)


class MachineCode:
    """Linked object code. Addresses are good as long as the object lives."""

    def __init__(self, objects: Mapping[str, bytes], cpu: str, features: str) -> None:
        """Link objects, each of which defines its key as a symbol."""
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine(cpu, features))
        for code in objects.values():
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()
        self._addresses = self._find(objects)

    def _find(self, symbols: Iterable[str]) -> dict[str, int]:
        return {symbol: int(self._engine.get_function_address(symbol)) for symbol in symbols}

    def address(self, symbol: str) -> int:
        """Return the address of a kernel."""
        return self._addresses[symbol]

    def entry(self, symbol: str) -> Entry:
        """Return a kernel as a Python callable of four integers."""
        return _Function(self._addresses[symbol])
