"""Stand-in for strict DOCA's noise: records the engine's input and returns the answers that a test chooses."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray

import castleguard as cg
from castleguard.algorithms.doca import noisy_columns
from castleguard.kernels.state import Arrays
from castleguard.privacy.mechanisms import DiscreteLaplace
from castleguard.stream import Anonymiser

Numbers = NDArray[np.int64]  # (runs or labels, columns)
SUMS, COUNTS = 0, 1


@dataclass
class Heard:
    """Input of an engine's noise: first that of sums, then that of counts."""

    mechanisms: list[list[DiscreteLaplace]] = field(default_factory=list)
    calls: list[tuple[int, Numbers]] = field(default_factory=list)


Answer = Callable[[int, list[DiscreteLaplace], Numbers], Numbers]
"""Maps the number of the call, the mechanisms and the true numbers to noisy numbers."""


def as_they_are(_: int, mechanisms: list[DiscreteLaplace], numbers: Numbers) -> Numbers:
    return numbers


def of_its_own(call: int, mechanisms: list[DiscreteLaplace], numbers: Numbers) -> Numbers:
    """Numbers within the range of the noise that do not depend on the true ones."""
    random = np.random.default_rng(call)
    return np.stack([random.integers(0, m.top + 1, len(numbers)) for m in mechanisms], axis=1)


class StandIn:
    """Replaces `privacy.noise.Noise`."""

    def __init__(self, heard: Heard, answer: Answer, mechanisms: Sequence[DiscreteLaplace]) -> None:
        self._heard = heard
        self._answer = answer
        self._mechanisms = list(mechanisms)
        self._number = len(heard.mechanisms)
        heard.mechanisms.append(self._mechanisms)

    def randomise(self, levels: Numbers, first_position: int, present: NDArray[np.bool_]) -> None:
        assert present.all()
        self._heard.calls.append((self._number, levels.copy()))
        levels[...] = self._answer(len(self._heard.calls), self._mechanisms, levels)

    def snapshot(self) -> Arrays:
        return {}

    def restore(self, arrays: Mapping[str, object]) -> None:
        pass


def stand_in(patch: pytest.MonkeyPatch, heard: Heard, answer: Answer) -> None:
    """Give engines created under the patch the stand-in as their noise."""
    patch.setattr(noisy_columns, "Noise", lambda mechanisms, *, key: StandIn(heard, answer, mechanisms))


def listening(
    schema: cg.Schema, policy: cg.Doca, answer: Answer = as_they_are, *, seed: int = 1
) -> tuple[Anonymiser, Heard]:
    """A stream whose noise is a stand-in."""
    heard = Heard()
    with pytest.MonkeyPatch.context() as patch:
        stand_in(patch, heard, answer)
        return Anonymiser(schema, policy, seed=seed), heard
