"""How an emitter becomes something that compiled Python can call, and the vector types that it passes."""

import inspect
from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeVar, cast

from llvmlite import ir
from numba import njit, types
from numba.core.datamodel.models import PrimitiveModel
from numba.extending import intrinsic, register_model

from rase_models.backends.cpu.emission.code import Code
from rase_models.backends.cpu.emission.types import F32X16, I32X16, Value
from rase_models.backends.cpu.instruction_set import instruction_set

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "boundscheck": False, "fastmath": False}
"""The options of every compiled function: no bounds checks, no exceptions, floats exactly as written."""
_CALLED_FROM_COMPILED_CODE: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Without entries for other callers a function compiles a third faster; Python must not call it."""

F = TypeVar("F", bound=Callable[..., Any])


class Operation(Hashable, Protocol):
    """A function of compiled code. Calling it from the interpreter is an error."""

    def __call__(self, *arguments: Any) -> Any:
        """Emit the operation."""


class Vector(types.Type):
    """The numba type of an LLVM vector.

    Attributes:
        llvm: the LLVM type.
    """

    def __init__(self, name: str, llvm: ir.Type) -> None:
        self.llvm = llvm
        super().__init__(name=name)


@register_model(Vector)
class _VectorModel(PrimitiveModel):
    def __init__(self, manager: object, frontend_type: Vector) -> None:
        super().__init__(manager, frontend_type, frontend_type.llvm)  # type: ignore[no-untyped-call]


f32x16 = Vector("f32x16", F32X16)
i32x16 = Vector("i32x16", I32X16)
i64, i32, f64, f32, void = types.int64, types.int32, types.float64, types.float32, types.void


def operation(result: types.Type, *arguments: types.Type) -> Callable[[Callable[..., Value]], Operation]:
    """Decorate an emitter `(Code, *LLVM values) -> LLVM value` into an operation of these numba types.

    Arguments of other types are converted when numba knows how.
    """

    def decorate(emit: Callable[..., Value]) -> Operation:
        signature = result(*arguments)

        def generate(context: Any, builder: ir.IRBuilder, _: object, values: list[Value]) -> Value:
            value = emit(Code(builder, instruction_set()), *values)
            return context.get_dummy_value() if result == void else value

        def define(typing_context: object, *given: object) -> tuple[Any, Callable[..., Value]] | None:
            return (signature, generate) if len(given) == len(arguments) else None

        define.__signature__ = _positional(len(arguments))  # type: ignore[attr-defined]
        define.__name__ = emit.__name__
        define.__doc__ = emit.__doc__
        return cast(Operation, intrinsic(define))

    return decorate


def _positional(count: int) -> inspect.Signature:
    """Return the signature that numba needs to see: a context and so many arguments."""
    names = ["typing_context", *(f"argument{index}" for index in range(count))]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature([inspect.Parameter(name, kind) for name in names])


def compiled(function: F) -> F:
    """Decorate a function of numbers, addresses and vectors that compiled code calls."""
    return cast(F, njit(**_OPTIONS, **_CALLED_FROM_COMPILED_CODE)(function))


def compiled_for_python(function: F) -> F:
    """Decorate a function of numbers and addresses that the interpreter calls."""
    return cast(F, njit(**_OPTIONS)(function))
