"""Figure 3: the taxi rides after sampling and noise, before any grouping."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.algorithms.castleguard.policy import Castleguard
from castleguard.algorithms.stages import make_keys
from castleguard.lab import taxi
from castleguard.lab.castleguard.rides import DELAY, K, experiment
from castleguard.lab.result import Claim, Result, Scale, Word

PHIS = (1.0, 10.0, 100.0, 1_000.0)
RATES = (0.25, 0.5, 0.75, 1.0)
CELLS = 10  # cells per side of the grid on which two clouds are compared
_SLACK = 0.02  # smaller differences in overlap are chance

Points = NDArray[np.float64]  # (rows, 2)


class Cloud(NamedTuple):
    """Tuples that reach the clusters."""

    points: Points
    fares: NDArray[np.float64]


Clouds = Mapping[tuple[float, float], Cloud]  # by phi and rate
Shares = Mapping[tuple[float, float], float]


def run(scale: Scale) -> list[Result]:
    """The whole grid, once: a mean of several runs would show no tuples."""
    rides = taxi.authors()
    original = np.stack([rides.column(name).to_numpy().astype(np.float64) for name in taxi.COLUMNS], axis=1)
    phis, rates = (PHIS[::3], RATES[::3]) if scale.quick else (PHIS, RATES)
    clouds = {(phi, rate): perturbed(rides, phi, rate, scale.seed) for phi in phis for rate in rates}
    shares = {key: in_common(original, cloud.points) for key, cloud in clouds.items()}
    return [
        Result(
            figure="3",
            title="perturbed and sampled tuples on the sampling rate and phi",
            setting=f"The authors' 1,000 taxi rides, sampled and perturbed as printed, seed {scale.seed}; nothing is "
            "grouped yet.",
            claims=(judge_shape(shares, phis, rates), judge_count(clouds, phis, rates)),
            columns=("phi", "sample rate", "tuples", "in common with the input"),
            rows=tuple(
                (f"{phi:,g}", f"{rate:g}", f"{len(cloud.points)}", f"{shares[phi, rate]:.1%}")
                for (phi, rate), cloud in clouds.items()
            ),
            draw=partial(_draw, clouds, phis, rates),
            size=(10.5, 9.0),
            notes=(
                f"In common: the share that both clouds have in common on a grid of {CELLS} times {CELLS} cells over "
                "the domain.",
                "A noisy value that leaves the domain is cut off at its bounds, which the paper leaves open. With "
                "phi=1 the noise is as wide as the domain, so that many tuples lie at its edges.",
            ),
        )
    ]


def perturbed(rides: pa.Table, phi: float, rate: float, seed: int) -> Cloud:
    """The sampled tuples, with noise."""
    schema = taxi.schema(rides)
    policy = Castleguard(k=K, l=1, delay=DELAY, phi=phi, sample_rate=rate, mode="paper")
    stages = policy.stages(schema, make_keys(seed))
    decoded = stages.decoder.decode(rides)
    taken = stages.intake.take(decoded.rows, decoded.payload, 0.0)
    kept = np.ones(rides.num_rows, dtype=np.bool_) if taken.present is None else taken.present
    return Cloud(taken.rows.quasi[kept], rides.column(taxi.FARE).to_numpy()[kept])


def in_common(original: Points, points: Points) -> float:
    """Overlap of two clouds, cell by cell; 1 if they fill all cells equally."""
    if not len(points):
        return 0.0
    edges = [np.linspace(column.min(), column.max(), CELLS + 1) for column in original.T]
    before, after = (np.histogramdd(cloud, edges)[0] / len(cloud) for cloud in (original, points))
    return float(np.minimum(before, after).sum())


def judge_shape(shares: Shares, phis: Sequence[float], rates: Sequence[float]) -> Claim:
    """Reproduced if at every rate the cloud approaches the input with every larger phi, within chance; partly if only
    the largest phi is nearer than the smallest."""
    steps = [shares[high, rate] - shares[low, rate] for low, high in pairwise(phis) for rate in rates]
    ends = [shares[phis[-1], rate] > shares[phis[0], rate] + _SLACK for rate in rates]
    verdict: Word = "reproduced" if all(step > -_SLACK for step in steps) and all(ends) else "not reproduced"
    if verdict == "not reproduced" and all(ends):
        verdict = "partly"
    listed = ", ".join(f"{np.mean([shares[phi, rate] for rate in rates]):.0%} with phi={phi:,g}" for phi in phis)
    return Claim(
        paper="With low phi the shape of the distribution is noisy; with higher phi it becomes more like the input.",
        ours=f"In common with the input, mean over the rates: {listed}.",
        verdict=verdict,
    )


def judge_count(clouds: Clouds, phis: Sequence[float], rates: Sequence[float]) -> Claim:
    """Reproduced if every larger rate keeps more tuples, each within four standard deviations of its share."""
    rows = [[len(clouds[phi, rate].points) for rate in rates] for phi in phis]
    grow = all(fewer < more for row in rows for fewer, more in pairwise(row))
    near = all(
        abs(count - taxi.SAMPLE * rate) <= 4 * np.sqrt(taxi.SAMPLE * rate * (1 - rate))
        for row in rows
        for count, rate in zip(row, rates, strict=True)
    )
    listed = ", ".join(
        f"{np.mean(column):.0f} at {rate:g}" for column, rate in zip(zip(*rows, strict=True), rates, strict=True)
    )
    return Claim(
        paper="With a low sampling rate the distribution is sparse.",
        ours=f"Tuples of {taxi.SAMPLE:,}, by the rate: {listed}.",
        verdict="reproduced" if grow and near else "partly" if grow else "not reproduced",
    )


def _draw(clouds: Clouds, phis: Sequence[float], rates: Sequence[float], figure: Any) -> None:
    panels = figure.subplots(len(phis), len(rates), sharex=True, sharey=True, squeeze=False)
    fares = np.concatenate([cloud.fares for cloud in clouds.values()])
    shown = None
    for row, phi in zip(panels, phis, strict=True):
        for axes, rate in zip(row, rates, strict=True):
            cloud = clouds[phi, rate]
            shown = axes.scatter(
                *cloud.points.T, c=cloud.fares, s=6, vmin=fares.min(), vmax=np.percentile(fares, 99), linewidths=0
            )
            axes.set_title(f"phi = {phi:,g}, beta = {rate:g}", fontsize=9)
    figure.supxlabel("pickup location, number", fontsize=10)
    figure.supylabel("trip distance, miles", fontsize=10)
    figure.colorbar(
        shown, ax=panels, label="fare, dollars (the highest hundredth in one colour)", shrink=0.6, extend="max"
    )


EXPERIMENT = experiment("3", "tuples after sampling and noise", run)
