"""Algorithms by name: built-in ones, and those that other packages register as entry points.

The entry point group is `castleguard.algorithms`; an entry names a class derived from `Policy`. The module of an
algorithm is imported on first use.
"""

import importlib
import inspect
from difflib import get_close_matches
from importlib.metadata import entry_points

from castleguard.algorithms.policy import Policy
from castleguard.algorithms.single_parameters import check_types
from castleguard.errors import PolicyError
from castleguard.schema.arguments import kind_of

GROUP = "castleguard.algorithms"

_BUILT_IN = {
    "citadel": "castleguard.algorithms.citadel.policy:Citadel",
    "castle": "castleguard.algorithms.castle.policy:Castle",
    "castleguard": "castleguard.algorithms.castleguard.policy:Castleguard",
    "sdgs": "castleguard.algorithms.sdgs.policy:Sdgs",
    "doca": "castleguard.algorithms.doca.policy:Doca",
    "dcastle": "castleguard.algorithms.dcastle.policy:Dcastle",
}


def names() -> list[str]:
    """Names of all algorithms, built-in ones first."""
    return [*_BUILT_IN, *sorted({entry.name for entry in entry_points(group=GROUP)} - _BUILT_IN.keys())]


def built_in() -> list[str]:
    """Names of the built-in algorithms."""
    return list(_BUILT_IN)


def find(name: str) -> type[Policy]:
    """Find the policy of this name. Raises PolicyError if it does not exist or cannot be loaded."""
    if name in _BUILT_IN:
        module, _, attribute = _BUILT_IN[name].partition(":")
        return _checked(name, getattr(importlib.import_module(module), attribute))
    for entry in entry_points(group=GROUP, name=name):
        try:
            found = entry.load()
        except Exception as exc:  # third-party code may raise anything
            raise PolicyError(f"the algorithm {name!r} cannot be loaded: {exc}") from exc
        policy = _checked(name, found)
        check_types(name, policy, {other: find(other) for other in _BUILT_IN})
        return policy
    close = get_close_matches(name, names(), n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names())}"
    raise PolicyError(f"unknown algorithm {name!r}; {hint}")


def _checked(name: str, found: object) -> type[Policy]:
    if not (isinstance(found, type) and issubclass(found, Policy)):
        raise PolicyError(f"the algorithm {name!r} is a {kind_of(found)}: it must be a class derived from Policy")
    if inspect.isabstract(found):
        lacking = ", ".join(sorted(found.__abstractmethods__))
        raise PolicyError(f"the algorithm {name!r} does not implement {lacking}")
    if found.name != name:
        raise PolicyError(f"the algorithm {name!r} is called {found.name!r} in its class: both names must be the same")
    return found
