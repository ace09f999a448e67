"""Decorators of the kernels, with their compile options.

All options are in this file because results depend on them: fastmath is off (a reordered sum would make two runs
disagree; only minima and maxima may be reordered, see `scan_kernel`), the GIL is released, and numpy's error model
applies (a kernel checks for division by zero where it can happen, not at every division).

Importing compiles nothing. An entry kernel loads its compiled library at its first call (`native/library.py`). In the
process that builds libraries the decorators return numba's functions instead, and with NUMBA_DISABLE_JIT=1 kernels run
as plain Python.
"""

import os
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

# Scalars inside a kernel: numpy scalars where they come out of an array.
Int = int | np.int64
Bool = bool | np.bool_

_Function = TypeVar("_Function", bound=Callable[..., Any])

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")
"""Whether kernels run compiled, not as plain Python."""


class Options(NamedTuple):
    """How a kernel is compiled."""

    entry: bool = False
    inline: bool = False
    scan: bool = False


_lower: Callable[[Callable[..., Any], Options], Any] | None = None


def lower_with(lower: Callable[[Callable[..., Any], Options], Any]) -> None:
    """Let the decorators return what `lower` makes of a function. For builds: call it before importing kernels."""
    global _lower  # noqa: PLW0603
    _lower = lower


def kernel(function: _Function) -> _Function:
    """Declare a function that other kernels call.

    It must not allocate: without reference counting, a call that passes the whole state costs a tenth.
    """
    return _declare(function, Options())


def inlined_kernel(function: _Function) -> _Function:
    """A `kernel` that is inlined into its caller.

    Meant for thin layers above large ones: the compiler processes everything below a function once per layer.
    """
    return _declare(function, Options(inline=True))


def scan_kernel(function: _Function) -> _Function:
    """A `kernel` that searches arrays without NaN for minima and maxima.

    The compiler vectorises comparisons only if NaN and the sign of zero do not matter. Neither option reorders a sum,
    so results do not depend on the machine.
    """
    return _declare(function, Options(scan=True))


def entry_kernel(function: _Function) -> _Function:
    """A `kernel` that Python can call, with exactly the types of its annotations. The caller passes all arrays."""
    return _declare(function, Options(entry=True))


def bind(function: Callable[..., Any], *leading: Any) -> Callable[..., Any]:
    """Return a function of the remaining arguments of an entry kernel.

    The leading ones are checked once, not at every call. Their arrays must stay where they are.
    """
    binding = getattr(function, "bind", None)
    if binding is not None:
        return cast("Callable[..., Any]", binding(*leading))
    return lambda *arguments: function(*leading, *arguments)


def _declare(function: _Function, options: Options) -> _Function:
    if _lower is not None:
        return cast(_Function, _lower(function, options))
    if not COMPILED:
        # Hashes and ciphers overflow on purpose; compiled code does so silently, numpy scalars would warn.
        return np.errstate(over="ignore")(function)
    if options.entry:
        from castleguard.kernels.native.call import Entry

        return cast(_Function, Entry(function))
    return function
