"""Declared types of an entry kernel, read from its annotations.

A compiled entry has exactly one signature, so annotations are binding here: an array is C-contiguous, has the dtype and
the number of axes that its annotation declares (`Annotated[NDArray[np.float64], 2]`; one axis without a number), and is
writable unless it is declared read-only. A named tuple has the types of its fields. `arrays.py` names the types.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from castleguard.kernels.arrays import READ_ONLY

_SCALARS = {bool: "bool", np.bool_: "bool", int: "int64", np.int64: "int64", float: "float64", np.float64: "float64"}
_SCALARS |= {np.uint64: "uint64"}


@dataclass(frozen=True)
class Scalar:
    """A number or truth value."""

    kind: str
    """"bool", "int64", "uint64" or "float64"."""


@dataclass(frozen=True)
class Array:
    """A C-contiguous array."""

    dtype: str
    axes: int
    written: bool = True
    """Whether the kernel may write it."""


@dataclass(frozen=True)
class Record:
    """A named tuple, or (`cls` is tuple) a plain one."""

    cls: type
    fields: tuple["Type", ...]


Type = Scalar | Array | Record


@dataclass(frozen=True)
class Signature:
    """Types of parameters and of the result; None: returns nothing."""

    parameters: tuple[Type, ...]
    result: Scalar | None

    @property
    def leaves(self) -> tuple[Scalar | Array, ...]:
        """Scalars and arrays of all parameters, in the order in which compiled code takes them."""
        return tuple(leaf for parameter in self.parameters for leaf in _leaves(parameter))


def _leaves(type_: Type) -> Iterator[Scalar | Array]:
    if isinstance(type_, Record):
        for field in type_.fields:
            yield from _leaves(field)
    else:
        yield type_


def signature_of(function: Callable[..., Any]) -> Signature:
    """Signature of a kernel. Raises TypeError for a parameter that is not annotated, or not with a kernel's type."""
    hints = get_type_hints(function, include_extras=True)
    result = hints.pop("return", None)
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    try:
        parameters = tuple(_type_of(hints[name]) for name in names)
        returned = None if result in (None, type(None)) else _type_of(result)
    except (KeyError, TypeError) as exc:
        raise TypeError(f"{function.__module__}.{function.__name__}: {exc} has no type that kernels take") from exc
    if isinstance(returned, Array | Record):
        raise TypeError(f"{function.__module__}.{function.__name__} returns more than a number")
    return Signature(parameters, returned)


@cache
def _type_of(hint: Any) -> Type:
    if hint in _SCALARS:
        return Scalar(_SCALARS[hint])
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        inner = _type_of(arguments[0])
        if not isinstance(inner, Array):
            raise TypeError(repr(hint))
        axes = [number for number in arguments[1:] if isinstance(number, int)]
        return Array(inner.dtype, axes[0] if axes else inner.axes, READ_ONLY not in arguments[1:])
    if origin in (Union, UnionType):  # an int, or numpy's integer that a kernel takes out of an array
        found = {_type_of(argument) for argument in arguments}
        if len(found) == 1:
            return found.pop()
    if origin is np.ndarray:
        return Array(np.dtype(get_args(arguments[1])[0]).name, 1)
    if origin is tuple:
        return Record(tuple, tuple(_type_of(argument) for argument in arguments))
    if isinstance(hint, type) and issubclass(hint, tuple):
        fields = get_type_hints(hint, include_extras=True)
        return Record(hint, tuple(_type_of(field) for field in fields.values()))
    raise TypeError(repr(hint))
