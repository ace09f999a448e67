"""One run of Figures 4 to 6: publish the training rows of a split, train classifiers on them, test on the others.

The paper names neither split nor network; the authors' published code has both: 30 % of the rows are held out, which
also explains the paper's percentages (163 and 158 of 231 rows are 70.56 % and 68.40 %), and the network has layers of
256, 64 and 256 neurons. It uses unscaled values; here they are also scaled.
"""

import statistics
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from castleguard.algorithms.castleguard.policy import Castleguard
from castleguard.conversion import anonymise
from castleguard.judge.measure.examples import Classes, Examples, original_examples, published_examples
from castleguard.judge.measure.learning import Learning, split, train_and_judge
from castleguard.lab import pima
from castleguard.lab.castleguard.agreement import NEIGHBOURS, Agreement, agreement

K, DELAY, LOSS_WINDOW, MAX_CLUSTERS = 7, 100, 100, 25
HELD_OUT = 0.3
NETWORK = Learning(hidden_layers=(256, 64, 256), rounds=500)


@dataclass(frozen=True, kw_only=True)
class Task:
    """One split, published by one policy."""

    seed: int
    phi: float | None = None
    """None: train on the original rows."""
    sample_rate: float = 1.0
    strict: bool = False
    neighbours: tuple[int, ...] = NEIGHBOURS

    def policy(self) -> Castleguard:
        """The paper's parameters."""
        return Castleguard(
            k=K,
            l=1,
            delay=DELAY,
            loss_window=LOSS_WINDOW,
            max_clusters=MAX_CLUSTERS,
            phi=self.phi,
            sample_rate=self.sample_rate,
            mode="strict" if self.strict else "paper",
        )


@dataclass(frozen=True, kw_only=True)
class Marks:
    """Scores of the classifiers: shares between 0 and 1, each for unscaled and scaled values."""

    neighbours: tuple[float, float]
    """Accuracy of k-nearest neighbours, averaged over the numbers of neighbours."""
    network: tuple[float, float]
    """Accuracy of the neural network."""
    area: tuple[float, float]
    """Its area under the ROC curve."""
    agreed: Agreement
    """For all rows, published together: see `agreement`."""
    rows: int
    """Training rows."""


def learn(task: Task) -> Marks:
    """All scores of one split."""
    table = pima.load()
    schema = pima.schema(table, strict=task.strict)
    classes = Classes(schema, pima.OUTCOME)
    tested = split(np.arange(table.num_rows), share=HELD_OUT, seed=task.seed)
    originals = original_examples(table, schema, classes)
    test = originals.take(tested)
    if task.phi is None:
        train, everybody = originals.take(~tested), table
        whole = originals
    else:
        parts = (table.filter(pa.array(~tested)), table)
        some, everybody = (anonymise(part, schema, task.policy(), seed=task.seed) for part in parts)
        train, whole = (published_examples(part, schema, classes) for part in (some, everybody))
        train = train.take(train.complete)
    with _one_thread():
        nearest, network, area = zip(*(_judge(train, test, task, scaled) for scaled in (False, True)), strict=True)
    return Marks(
        neighbours=nearest,
        network=network,
        area=area,
        agreed=agreement(whole.features[whole.complete], _outcomes(everybody)[whole.complete]),
        rows=len(train),
    )


def _outcomes(table: pa.Table) -> NDArray[np.int64]:
    """0 and 1 as in the data: `Classes` numbers them by appearance, and 1 comes first."""
    outcomes: NDArray[np.int64] = pc.cast(table.column(pima.OUTCOME), pa.int64()).fill_null(-1).to_numpy()
    return outcomes


def _one_thread() -> AbstractContextManager[Any]:
    """Use one thread: the matrices are small, and threads would mostly wait for one another."""
    limits: AbstractContextManager[Any] = import_module("threadpoolctl").threadpool_limits(limits=1)
    return limits


def _judge(train: Examples, test: Examples, task: Task, scaled: bool) -> tuple[float, float, float]:
    nearest = [
        train_and_judge(
            train, test, "k-NN", scaled=scaled, settings=Learning(neighbours=count), seed=task.seed
        ).accuracy
        for count in task.neighbours
    ]
    network = train_and_judge(train, test, "neural network", scaled=scaled, settings=NETWORK, seed=task.seed)
    return statistics.fmean(nearest), network.accuracy, network.auc


def mean(runs: Sequence[Marks]) -> Marks:
    """Mean of every score."""

    def both(name: str) -> tuple[float, float]:
        first, second = np.mean([getattr(marks, name) for marks in runs], axis=0).tolist()
        return first, second

    return Marks(
        neighbours=both("neighbours"),
        network=both("network"),
        area=both("area"),
        agreed=Agreement(*np.mean([marks.agreed for marks in runs], axis=0).tolist()),
        rows=round(statistics.fmean(marks.rows for marks in runs)),
    )
