"""HTML report of an audit, with pictures per group, person and column."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from castleguard.drawing import BLUE, GREY, INK
from castleguard.judge.report.findings import Audit
from castleguard.judge.report.glossary import OF_PUBLICATIONS
from castleguard.judge.report.page import Page, Repeat, save
from castleguard.judge.report.pictures import HEIGHT, Draw, Picture, height, mark, picture

Numbers = NDArray[np.float64]

_BARS = 30
_LOSS = ("loss: ", "loss of ")  # prefixes of a column name


def write(audit: Audit, path: Path, *, repeat: Repeat | None = None) -> None:
    """Write the report. Raises OutputError if the file cannot be written."""
    page = Page(
        title="Audit of a publication",
        audit=audit,
        summary=_summary(audit),
        draw=lambda: pictures_of(audit),
        glossary=OF_PUBLICATIONS,
        repeat=repeat,
    )
    save(page, path)


def _summary(audit: Audit) -> str:
    failed, warnings = audit.count("failed"), audit.count("warning")
    first = (
        "No broken promise was found."
        if audit.ok
        else f"{_number(failed, 'broken promise was', 'broken promises were')} found. Do not publish this file."
    )
    more = f" Risks that no promise covers: {_number(warnings, 'warning', 'warnings')}." if warnings else ""
    return f"{first}{more} Unchecked promises remain unproved."


def _number(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def pictures_of(audit: Audit) -> tuple[Picture, ...]:
    """Draw every known distribution. Raises ModuleNotFoundError without matplotlib."""
    return tuple(_structural(audit))


def _structural(audit: Audit) -> Iterator[Picture]:
    found = {name: np.asarray(values, dtype=np.float64) for name, values in audit.distributions.items() if values}
    k = promised_k(audit)
    sizes = (("persons per group", k), ("rows per group", None), ("persons per group of a release", k))
    for name, asked in sizes:  # k counts persons, not rows
        if name in found:
            draw = _draw_sizes(found[name], name, asked)
            yield picture(name.capitalize(), draw, HEIGHT, _sizes_caption(name, asked))
    for name, values in found.items():
        if name.startswith("largest share of one value per group"):
            yield picture(name.capitalize(), _draw_shares(values), HEIGHT, _SHARE_CAPTION)
    if "prosecutor risk per person" in found:
        yield picture("Risk per person", _draw_risk(found["prosecutor risk per person"], k), HEIGHT, _RISK_CAPTION)
    if "longitudinal set size" in found:
        draw = _draw_candidates(found["longitudinal set size"], k)
        yield picture("Candidates left after combining all rows of a person", draw, HEIGHT, _CANDIDATES_CAPTION)
    losses = _losses(found)
    if losses:
        yield picture("Information loss by column", _draw_losses(losses), height(len(losses)), _LOSS_CAPTION)


def promised_k(audit: Audit) -> float | None:
    """The promised k, from the finding that states it; None without one."""
    for section in audit.sections:
        for finding in section.findings:
            asked = finding.figures.get("asked")
            if finding.id == "fewest-persons" and isinstance(asked, int | float):
                return float(asked)
    return None


def _losses(found: Mapping[str, Numbers]) -> dict[str, float]:
    """Mean loss of every column."""
    return {
        name.removeprefix(prefix): float(values.mean())
        for name, values in found.items()
        for prefix in _LOSS
        if name.startswith(prefix)
    }


# Groups


def _draw_sizes(values: Numbers, name: str, k: float | None) -> Draw:
    what = name.partition(" ")[0]

    def draw(axes: Any) -> None:
        # The last bar collects all larger values, because outliers would squeeze the others into one bar.
        end = max(float(np.quantile(values, 0.98)), (k or 1) * 2, 10.0)
        width = max(1, round(end / _BARS))
        edges = np.arange(0, end + 2 * width, width)
        axes.hist(np.minimum(values, edges[-1] - width / 2), edges, color=BLUE, edgecolor="white", linewidth=0.5)
        beyond = f" (last bar: {edges[-2]:g} or more)" if (values > edges[-1]).any() else ""
        if k is not None:
            mark(axes, k, f"promised: k = {k:g}")
        axes.set(xlim=(0, edges[-1]), xlabel=f"{what} in a group{beyond}", ylabel="groups")

    return draw


def _draw_shares(values: Numbers) -> Draw:
    def draw(axes: Any) -> None:
        axes.hist(100 * values, np.linspace(0, 100, 21), color=BLUE, edgecolor="white", linewidth=0.5)
        axes.set(xlim=(0, 100), xlabel="share of the most frequent sensitive value in a group (%)", ylabel="groups")

    return draw


# Persons


def _draw_risk(values: Numbers, k: float | None) -> Draw:
    def draw(axes: Any) -> None:
        _draw_cumulative(axes, 100 * values)
        if k is not None:
            mark(axes, 100 / k, f"1/k = {100 / k:.3g} %")
        axes.set(xlim=(0, None), xlabel="risk of identification (%)", ylabel="persons with at most\nthis risk (%)")

    return draw


def _draw_candidates(values: Numbers, k: float | None) -> Draw:
    def draw(axes: Any) -> None:
        axes.set_xscale("log")
        _draw_cumulative(axes, np.maximum(values, 1))
        if k is not None:
            mark(axes, k, f"k = {k:g}")
        axes.xaxis.set_major_formatter(lambda number, _: f"{number:,.0f}" if number >= 1 else "")
        axes.set(xlabel="candidates left for a person", ylabel="persons with at most\nthis many (%)")

    return draw


def _draw_cumulative(axes: Any, values: Numbers) -> None:
    ordered = np.sort(values)
    share = 100 * np.arange(1, ordered.size + 1) / ordered.size
    axes.step(ordered, share, where="post", color=BLUE, linewidth=2)
    axes.fill_between(ordered, share, step="post", color=BLUE, alpha=0.15, linewidth=0)
    axes.set_ylim(0, 103)
    axes.grid(axis="y", color=GREY, linewidth=0.4)


def _draw_losses(losses: Mapping[str, float]) -> Draw:
    def draw(axes: Any) -> None:
        names, shares = list(losses)[::-1], 100 * np.array(list(losses.values()))[::-1]
        bars = axes.barh(names, shares, color=BLUE, height=0.6)
        axes.bar_label(bars, [f"{share:.1f} %" for share in shares], padding=3, color=INK)
        axes.set(xlim=(0, max(100, float(shares.max()))), xlabel="mean published width, share of the domain (%)")

    return draw


def _sizes_caption(name: str, k: float | None) -> str:
    what = name.partition(" ")[0]
    text = f"Number of {what} that share one published combination. Larger groups hide each of them better."
    if what == "rows":
        return f"{text} Rows are not persons: one person can have several rows."
    if name.endswith("of a release"):
        return f"{text} Counted within each release, as an observer who knows arrival times does."
    return text if k is None else f"{text} The dashed line is the promised k; no bar should be to its left."


_SHARE_CAPTION = (
    "Uniformity of the sensitive values within groups. At 100 %, all rows of a group have the same value, so knowing "
    "that a person is in the group reveals their value, without finding their row."
)
_RISK_CAPTION = (
    "Share of persons whose risk of identification, by an attacker who knows that they are in the data, is at most the "
    "value on the horizontal axis. A curve that reaches the top early is good."
)
_CANDIDATES_CAPTION = (
    "An attacker who knows several rows of a person can look for all persons who match every one of them. The curve "
    "shows the share of persons for whom at most this many candidates are left. For persons at the left edge, only one "
    "is left. k-anonymity makes no promise about this."
)
_LOSS_CAPTION = (
    "Mean width of the published ranges: 0 % means that exact values were published, 100 % that the whole domain was."
)
