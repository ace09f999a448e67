"""Strategies that are made once: making and checking one takes longer than drawing from it."""

from functools import lru_cache
from typing import Any, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


def among(*values: T) -> st.SearchStrategy[T]:
    """One of these values, which must be hashable; the first is the simplest."""
    found: st.SearchStrategy[T] = _among(*values)
    return found


@lru_cache(maxsize=None, typed=True)  # 1 and 1.0 are different values
def _among(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)
