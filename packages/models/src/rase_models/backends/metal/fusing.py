"""Elementwise functions as one kernel."""

from collections.abc import Callable
from typing import TypeVar, cast

import mlx.core as mx

_Function = TypeVar("_Function", bound=Callable[..., mx.array])


def fused(function: _Function) -> _Function:
    """Compile an elementwise function to one kernel of a GPU; the CPU would need a C++ compiler for it."""
    if not mx.metal.is_available():
        return function
    return cast(_Function, mx.compile(function, shapeless=True))
