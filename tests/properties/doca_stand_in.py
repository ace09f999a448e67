"""In place of strict DOCA's noise: it writes down what the engine hands over, and answers as a test wants it to."""

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
    """What an engine hands to its noise: to that of sums, then to that of counts."""

    mechanisms: list[list[DiscreteLaplace]] = field(default_factory=list)
    calls: list[tuple[int, Numbers]] = field(default_factory=list)


Answer = Callable[[int, list[DiscreteLaplace], Numbers], Numbers]
"""From the number of the call, the mechanisms and the true numbers to noisy ones."""


def as_they_are(_: int, mechanisms: list[DiscreteLaplace], numbers: Numbers) -> Numbers:
    return numbers


def of_its_own(call: int, mechanisms: list[DiscreteLaplace], numbers: Numbers) -> Numbers:
    """Numbers within the range of the noise that do not depend on the true ones."""
    random = np.random.default_rng(call)
    return np.stack([random.integers(0, m.top + 1, len(numbers)) for m in mechanisms], axis=1)


class StandIn:
    """In place of `privacy.noise.Noise`."""

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
    """Engines that are made while the patch holds have the stand-in for their noise."""
    patch.setattr(noisy_columns, "Noise", lambda mechanisms, *, key: StandIn(heard, answer, mechanisms))


def listening(
    schema: cg.Schema, policy: cg.Doca, answer: Answer = as_they_are, *, seed: int = 1
) -> tuple[Anonymiser, Heard]:
    """A stream whose noise is a stand-in."""
    heard = Heard()
    with pytest.MonkeyPatch.context() as patch:
        stand_in(patch, heard, answer)
        return Anonymiser(schema, policy, seed=seed), heard
