"""The authors' published evaluation of k-nearest neighbours, rewritten: the origin of their figure of 54.87 %.

The rows are cut into ten consecutive folds. Each fold is predicted from the nine others, with 10, 15, ... 50
neighbours. But the predictions are then compared with the labels of the first rows of those nine folds instead of the
fold's own: with other rows. The result is how often two labels agree by chance, and says nothing about learning: always
naming the more frequent label gives 65.1 %.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FOLDS = 10
NEIGHBOURS = tuple(range(10, 51, 5))

Features = NDArray[np.float64]  # (rows, features)
Labels = NDArray[np.int64]  # (rows,), 0 or 1


class Agreement(NamedTuple):
    """Share of predictions that agree, averaged over folds and numbers of neighbours."""

    with_others: float
    """With the labels of other rows, as in the authors' code."""
    with_own: float
    """With the labels of the predicted rows: an accuracy."""


def agreement(features: Features, labels: Labels) -> Agreement:
    """Both shares for the same predictions. Rows must outnumber the folds."""
    others, own = [], []
    for fold in np.array_split(np.arange(labels.size), FOLDS):
        train = np.setdiff1d(np.arange(labels.size), fold)
        apart = ((features[fold][:, None, :] - features[train][None, :, :]) ** 2).sum(axis=2)
        nearest = labels[train][np.argsort(apart, axis=1, kind="stable")]
        for count in NEIGHBOURS:
            votes = nearest[:, :count]
            predicted = 2 * votes.sum(axis=1) > votes.shape[1]  # a tie goes to the first label
            others.append(np.mean(predicted == labels[train][: fold.size]))
            own.append(np.mean(predicted == labels[fold]))
    return Agreement(float(np.mean(others)), float(np.mean(own)))
