"""Learning utility: classifiers trained on published rows, compared with classifiers trained on original rows.

CASTLEGUARD (section V-B) trains a k-nearest-neighbours classifier and a neural network on both, and compares their
accuracy on unseen rows. These are original rows, with minimum = maximum, because a user of the classifier knows the
exact values of a case. Needs scikit-learn, the extra `learn`.
"""

import warnings
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.errors import InputError, PolicyError, UsageError
from castleguard.judge.measure.examples import Classes, Examples, original_examples, published_examples
from castleguard.judge.reading.linked import Linked
from castleguard.judge.reading.values import Codes
from castleguard.privacy.parameters import check_count, check_probability
from castleguard.schema.roles import Schema

Model = Literal["k-NN", "neural network"]
Source = Literal["original", "published"]


@dataclass(frozen=True, kw_only=True)
class Learning:
    """Training settings. The paper states none of them; the defaults are scikit-learn's where it has any."""

    test_share: float = 0.25
    """Share of persons whose rows are used for testing only."""
    neighbours: int = 5
    hidden_layers: tuple[int, ...] = (100,)
    """Neurons of every hidden layer of the neural network."""
    rounds: int = 200
    """Maximum number of training epochs of the neural network."""
    scaled: tuple[bool, ...] = (False, True)
    """Whether to standardise features to mean 0 and deviation 1 on the training rows; both by default."""
    models: tuple[Model, ...] = ("k-NN", "neural network")
    runs: int = 5
    """Number of runs, each with its own split and initial weights."""
    seed: int = 0

    def __post_init__(self) -> None:
        check_probability("test_share", self.test_share)
        for name in ("neighbours", "rounds", "runs"):
            check_count(name, getattr(self, name))
        check_count("seed", self.seed, least=0)
        for neurons in self.hidden_layers:
            check_count("a hidden layer", neurons)
        if not self.scaled or not self.models:
            raise PolicyError("scaled and models must each have at least one entry")


class Spread(NamedTuple):
    """Mean and deviation of a figure over several runs."""

    mean: float
    """Mean over the runs in which it is defined; NaN if none."""
    deviation: float
    """Standard deviation of a single run; NaN with fewer than two."""
    values: tuple[float, ...]
    """Value of every run; NaN if undefined."""


class Outcome(NamedTuple):
    """Result of one classifier in one run."""

    accuracy: float
    """Share of test rows classified correctly; NaN without training or test rows."""
    auc: float
    """Area under the ROC curve, for more than two classes the mean of one-vs-rest; NaN if all test rows have one class.
    """
    settled: bool
    """Whether the training converged within its rounds."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """Result of one classifier over all runs."""

    model: Model
    scaled: bool
    trained_on: Source
    accuracy: Spread
    auc: Spread


@dataclass(frozen=True, kw_only=True)
class LearningUtility:
    """Results of all classifiers."""

    label: str
    scores: tuple[Score, ...]
    majority: Spread
    """Baseline: accuracy of always predicting the most frequent class of the original training rows."""
    left_out: int
    """Original rows with a missing value or label, used neither for training nor for testing."""
    notes: tuple[str, ...]
    """Remarks on missing or doubtful figures."""


class Run(NamedTuple):
    """Rows of one run."""

    original: Examples
    published: Examples
    test: Examples
    seed: int


def learning_utility(linked: Linked, *, label: str, settings: Learning | None = None) -> LearningUtility:
    """Split the persons of a published table into training and test, and compare published with original training rows.

    The test rows were in the stream too and influenced the boxes of the training rows. For a clean separation, split
    first, publish the training rows alone, and call `held_out_utility`.
    """
    chosen = settings or Learning()
    classes = Classes(linked.schema, label)
    original = original_examples(linked.original, linked.schema, classes)
    published = published_examples(linked.published, linked.schema, classes)
    usable, shown = original.complete, published.complete
    runs = []
    for seed in range(chosen.seed, chosen.seed + chosen.runs):
        tested = split(linked.originals.persons, share=chosen.test_share, seed=seed)
        learned = shown & (linked.row >= 0)
        learned[learned] = ~tested[linked.row[learned]]
        runs.append(Run(original.take(usable & ~tested), published.take(learned), original.take(usable & tested), seed))
    return _summary(label, tuple(runs), chosen, int(np.count_nonzero(~usable)))


def held_out_utility(
    published: pa.Table,
    original: pa.Table,
    held_out: pa.Table,
    schema: Schema,
    *,
    label: str,
    settings: Learning | None = None,
) -> LearningUtility:
    """Learning utility for a split made before publishing. Needs no link.

    `published`: the publication of `original`. `held_out`: original rows that were not in the stream. Runs differ only
    in the initial weights of the neural network.
    """
    chosen = settings or Learning()
    classes = Classes(schema, label)
    train, test = original_examples(original, schema, classes), original_examples(held_out, schema, classes)
    shown = published_examples(published, schema, classes)
    left_out = int(np.count_nonzero(~train.complete)) + int(np.count_nonzero(~test.complete))
    train, test, shown = train.take(train.complete), test.take(test.complete), shown.take(shown.complete)
    runs = tuple(Run(train, shown, test, seed) for seed in range(chosen.seed, chosen.seed + chosen.runs))
    return _summary(label, runs, chosen, left_out)


def split(persons: Codes, *, share: float, seed: int) -> NDArray[np.bool_]:
    """Choose test rows: all rows of random persons, so that no person is in both sets."""
    known = np.unique(persons)
    if known.size < 2:
        raise InputError("the original table has fewer than two persons: learning needs one to train and one to test")
    many = min(max(1, round(share * known.size)), known.size - 1)
    chosen = np.random.default_rng(seed).permutation(known)[:many]
    tested: NDArray[np.bool_] = np.isin(persons, chosen)
    return tested


def train_and_judge(
    train: Examples, test: Examples, model: Model, *, scaled: bool, settings: Learning, seed: int
) -> Outcome:
    """Train one classifier and test it."""
    _check_library()
    if not len(train) or not len(test):
        return Outcome(float("nan"), float("nan"), True)
    known, settled = np.unique(train.labels), True
    count = int(max(train.labels.max(), test.labels.max())) + 1
    chances = np.zeros((len(test), count))
    if known.size == 1:
        chances[:, known[0]] = 1.0  # only one class to predict
    else:
        classifier = _classifier(model, scaled, settings, rows=len(train), seed=seed)
        settled = _fit(classifier, train)
        chances[:, known] = classifier.predict_proba(test.features)
    accuracy = float(np.mean(np.argmax(chances, axis=1) == test.labels))
    return Outcome(accuracy, _area(test.labels, chances), settled)


def _check_library() -> None:
    try:
        import sklearn.neighbors  # noqa: F401
    except ModuleNotFoundError as exc:
        raise UsageError("learning utility needs scikit-learn: pip install 'castleguard[learn]'") from exc


def _classifier(model: Model, scaled: bool, settings: Learning, *, rows: int, seed: int) -> Any:
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if model == "k-NN":
        last = KNeighborsClassifier(n_neighbors=min(settings.neighbours, rows))
    else:
        last = MLPClassifier(settings.hidden_layers, max_iter=settings.rounds, random_state=seed)
    return make_pipeline(StandardScaler(), last) if scaled else last


def _fit(classifier: Any, train: Examples) -> bool:
    """Train a classifier; return whether it converged."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        classifier.fit(train.features, train.labels)
    return not any(issubclass(one.category, ConvergenceWarning) for one in caught)


def _area(labels: Codes, chances: NDArray[np.float64]) -> float:
    """Area under the ROC curve, one class against the rest."""
    from sklearn.metrics import roc_auc_score

    present = np.unique(labels)
    if present.size < 2:
        return float("nan")
    if chances.shape[1] == 2:
        return float(roc_auc_score(labels == 1, chances[:, 1]))
    return float(np.mean([roc_auc_score(labels == one, chances[:, one]) for one in present]))


def _summary(label: str, runs: tuple[Run, ...], settings: Learning, left_out: int) -> LearningUtility:
    scores, unsettled = [], 0
    for model in settings.models:
        for scaled in settings.scaled:
            for source in ("original", "published"):
                train = [run.original if source == "original" else run.published for run in runs]
                outcomes = [
                    train_and_judge(rows, run.test, model, scaled=scaled, settings=settings, seed=run.seed)
                    for rows, run in zip(train, runs, strict=True)
                ]
                unsettled += sum(not outcome.settled for outcome in outcomes)
                accuracy = spread([outcome.accuracy for outcome in outcomes])
                auc = spread([outcome.auc for outcome in outcomes])
                scores.append(Score(model=model, scaled=scaled, trained_on=source, accuracy=accuracy, auc=auc))
    majority = spread([_majority(run) for run in runs])
    notes = _notes(runs, unsettled, settings)
    return LearningUtility(label=label, scores=tuple(scores), majority=majority, left_out=left_out, notes=notes)


def _notes(runs: tuple[Run, ...], unsettled: int, settings: Learning) -> tuple[str, ...]:
    empty = sum(not len(run.published) for run in runs)
    single = sum(len(run.published) > 0 and np.unique(run.published.labels).size < 2 for run in runs)
    undefined = sum(np.unique(run.test.labels).size < 2 for run in runs)
    notes = (
        (empty, f"no training rows were published in {empty} of {len(runs)} runs, which have no figures"),
        (single, f"the published rows have only one class in {single} of {len(runs)} runs, which is always predicted"),
        (undefined, f"all test rows have one class in {undefined} of {len(runs)} runs, which have no ROC curve"),
        (unsettled, f"neural networks that did not converge within {settings.rounds:,} rounds: {unsettled}"),
    )
    return tuple(sentence for count, sentence in notes if count)


def _majority(run: Run) -> float:
    if not len(run.original) or not len(run.test):
        return float("nan")
    return float(np.mean(run.test.labels == np.bincount(run.original.labels).argmax()))


def spread(values: list[float]) -> Spread:
    """Mean and deviation of the defined values."""
    known = [value for value in values if not np.isnan(value)]
    mean = float(np.mean(known)) if known else float("nan")
    deviation = float(np.std(known, ddof=1)) if len(known) > 1 else float("nan")
    return Spread(mean, deviation, tuple(values))
