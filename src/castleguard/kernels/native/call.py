"""Calls into compiled entry kernels.

All arguments travel in one block of eight-byte slots: the result, then every scalar, and every array as its size, item
size, address, shape and strides. The compiled function trusts the block, so types are checked here: an array of
another dtype would be read as garbage.
"""

import struct
from collections.abc import Callable
from ctypes import addressof, byref, c_char
from functools import update_wrapper
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from castleguard.kernels.native.library import ENTRIES, find_function
from castleguard.kernels.native.signature import Array, Scalar, signature_of

_SCALARS = {"bool": "q", "int64": "q", "uint64": "Q", "float64": "d"}
_RESULTS: dict[str, Callable[[bytearray], Any]] = {
    "bool": lambda block: block[0] != 0,
    "int64": lambda block: struct.unpack_from("=q", block)[0],
    "uint64": lambda block: struct.unpack_from("=Q", block)[0],
    "float64": lambda block: struct.unpack_from("=d", block)[0],
}


class Entry:
    """An entry kernel as a Python function; its library is loaded at the first call."""

    def __init__(self, function: Callable[..., Any]) -> None:
        update_wrapper(self, function)
        self._function = function
        ENTRIES.append(function)
        self._native: Callable[[Any], int] | None = None
        self._leaves: list[_Leaf] = []
        self._slots = struct.Struct("=8x")
        self._result: str | None = None

    def __call__(self, *arguments: Any) -> Any:
        """Call the compiled function."""
        return self._call(self._pack(arguments, 0))

    def bind(self, *leading: Any) -> Callable[..., Any]:
        """Return a function of the remaining arguments; the leading ones are checked and packed once.

        Their arrays must stay where they are: write into them, but do not resize them.
        """
        slots: list[Any] | None = None
        count = 0

        def bound(*arguments: Any) -> Any:
            nonlocal slots, count
            if slots is None:  # at the first call, because packing loads the library
                slots, count = self._pack(leading, 0), len(_flatten(leading))
            return self._call(slots + self._pack(arguments, count))

        return bound

    def _prepare(self) -> None:
        """Read the signature and load the library."""
        signature = signature_of(self._function)
        self._leaves = [_leaf(type_) for type_ in signature.leaves]
        self._slots = struct.Struct("=8x" + "".join(leaf.form for leaf in self._leaves))
        self._result = None if signature.result is None else signature.result.kind
        self._native = find_function(self._function)

    def _pack(self, arguments: tuple[Any, ...], skip: int) -> list[Any]:
        """Content of the slots of some arguments, `skip` leaves after the first."""
        if self._native is None:
            self._prepare()
        slots: list[Any] = []
        values = _flatten(arguments)
        if len(values) > len(self._leaves) - skip:
            raise TypeError(f"{self._function.__name__}: too many arguments")
        for (form, dtype, axes, written), value in zip(self._leaves[skip:], values, strict=False):
            if dtype is None:
                slots.append(float(value) if form == "d" else int(value))
            elif value.dtype == dtype and value.ndim == axes and _fits(value, written):
                slots += (value.size, value.itemsize, _address(value), *value.shape, *value.strides)
            else:
                raise TypeError(f"{self._function.__name__}: {_describe(value)} in place of {axes} axes of {dtype}")
        return slots

    def _call(self, slots: list[Any]) -> Any:
        """Call the compiled function with packed arguments."""
        block = bytearray(self._slots.size)
        try:
            self._slots.pack_into(block, 0, *slots)
        except struct.error as exc:
            raise TypeError(f"{self._function.__name__}: wrong number or kind of arguments") from exc
        assert self._native is not None
        if self._native(byref(c_char.from_buffer(block))) != 0:
            raise RuntimeError(f"the compiled kernel {self._function.__name__} failed")
        return None if self._result is None else _RESULTS[self._result](block)


class _Leaf(NamedTuple):
    """How a scalar (dtype None) or an array is packed."""

    form: str
    dtype: np.dtype[Any] | None
    axes: int
    written: bool


def _leaf(type_: Scalar | Array) -> _Leaf:
    if isinstance(type_, Scalar):
        return _Leaf(_SCALARS[type_.kind], None, 0, False)
    return _Leaf("qqQ" + "qq" * type_.axes, np.dtype(type_.dtype), type_.axes, type_.written)


def _fits(array: NDArray[Any], written: bool) -> bool:
    """Whether compiled code can read an array, and write it if it is to be written."""
    flags = array.flags
    return flags.carray or (not written and flags.c_contiguous and flags.aligned)


def _address(array: Any) -> int:
    if not array.size:
        return 0
    if array.flags.writeable:  # five times as fast
        return addressof(c_char.from_buffer(array))
    return int(array.__array_interface__["data"][0])


def _describe(array: NDArray[Any]) -> str:
    flags = array.flags
    faults = [name for name, good in (("read-only", flags.writeable), ("strided", flags.c_contiguous)) if not good]
    return " ".join(["an array of", *faults, f"{array.dtype} with {array.ndim} axes"])


def _flatten(values: tuple[Any, ...]) -> list[Any]:
    """Elements of nested tuples, in order."""
    flat: list[Any] = []
    for value in values:
        if isinstance(value, tuple):
            flat += _flatten(value)
        else:
            flat.append(value)
    return flat
