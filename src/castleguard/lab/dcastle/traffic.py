"""Figure 5 and section 6.2: bytes that sites send each other, for k-anonymity and for l-diversity."""

from collections.abc import Sequence
from functools import partial

from castleguard.lab.dcastle.charts import Line, Panel, draw_panel, ticks
from castleguard.lab.dcastle.contenders import CLUSTERS, DISTRIBUTED, Outcome
from castleguard.lab.dcastle.design import UNITS, Setting, Sweep, Varied, distinct
from castleguard.lab.dcastle.judging import at_most, claim, combined, hardly_more_bytes, spread, trend
from castleguard.lab.dcastle.runs import Point
from castleguard.lab.dcastle.study import Study
from castleguard.lab.result import Claim, Result

LETTERS = "abcdefg"
FIGURES = (*(f"5{letter}" for letter in LETTERS), "5")
L = 6
MOST_BYTES, MOST_SHARE, MOST_CLUSTERS = 20_000, 0.003, 43
STATED: dict[Varied, bool] = {"columns": True, "k": False, "delay": False, "sites": True}
"""Varied parameter, and whether the bytes are said to grow with it."""


def points(study: Study) -> list[Point]:
    """Every point with and without l."""
    return [
        (DISTRIBUTED, point)
        for sweep in _sweeps(study)
        for setting in sweep.settings()
        for point in (setting, setting.without_l)
    ]


def results(study: Study) -> list[Result]:
    """One result per sub-figure, then the statements about all of them."""
    return [*(_result(study, letter) for letter in LETTERS), _all(study)]


def _sweeps(study: Study) -> list[Sweep]:
    return [study.sweeps[letter].of_l(L) for letter in LETTERS]


def _pairs(study: Study, settings: Sequence[Setting]) -> list[tuple[Outcome, Outcome]]:
    """Per point: k-anonymity, and with l."""
    runs = study.runs
    return [(runs.outcome(DISTRIBUTED, one.without_l), runs.outcome(DISTRIBUTED, one)) for one in settings]


def _result(study: Study, letter: str) -> Result:
    sweep = study.sweeps[letter].of_l(L)
    pairs = _pairs(study, sweep.settings())
    plain, diverse = ([pair[number].bytes for pair in pairs] for number in (0, 1))
    columns = (UNITS[sweep.varied], "bytes, k-anonymity", f"bytes, l={L}", "more", "of the data", "most clusters")
    rows = [
        (
            f"{value:,}",
            f"{one.bytes:,}",
            f"{other.bytes:,}",
            f"{_increase(one, other):+.1%}",
            f"{other.bytes / study.runs.data.bytes:.2%}",
            f"{max(one.most_clusters, other.most_clusters)}",
        )
        for value, (one, other) in zip(sweep.values, pairs, strict=True)
    ]
    panel = Panel(
        ticks=ticks(sweep.values),
        across=UNITS[sweep.varied],
        up="bytes sent by all sites",
        lines=(
            Line("k-anonymity", tuple(float(count) for count in plain)),
            Line(f"k-anonymity and\nl-diversity, l={L}", tuple(float(count) for count in diverse)),
        ),
        level=(MOST_BYTES, "most in the paper"),
    )
    return Result(
        figure=f"5{letter}",
        title=f"bytes sent, {sweep}",
        setting=study.about(f"dCASTLE as printed, with l={L} and without, {sweep}"),
        claims=(_trend(sweep, pairs),),
        columns=columns,
        rows=tuple(rows),
        draw=partial(draw_panel, panel),
    )


def _trend(sweep: Sweep, pairs: Sequence[tuple[Outcome, Outcome]]) -> Claim:
    rising = STATED[sweep.varied]
    plain, diverse = ([pair[number].bytes for pair in pairs] for number in (0, 1))
    return claim(
        f"The bytes sent {'grow' if rising else 'fall'} with {UNITS[sweep.varied]}.",
        f"From {plain[0]:,} to {plain[-1]:,} without l, from {diverse[0]:,} to {diverse[-1]:,} with l={L}.",
        combined([trend(counts, rising=rising) for counts in (plain, diverse)]),
        _reason(pairs[0][1], pairs[-1][1]),
    )


def _reason(first: Outcome, last: Outcome) -> str:
    """Number and length of messages: which of the two made the difference."""
    sizes = [f"{one.messages:,} messages of {one.bytes / max(one.messages, 1):.0f} bytes" for one in (first, last)]
    return f"With l={L} the sites sent {sizes[0]} at the first point, and {sizes[1]} at the last."


def _all(study: Study) -> Result:
    pairs = _pairs(study, distinct(setting for sweep in _sweeps(study) for setting in sweep.settings()))
    increases = [_increase(*pair) for pair in pairs if pair[0].bytes]
    size = study.runs.data.bytes
    most = max(other.bytes for pair in pairs for other in pair)
    clusters = [max(one.most_clusters, other.most_clusters) for one, other in pairs]
    claims = (
        claim(
            f"At most {MOST_BYTES:,} bytes are sent, {MOST_SHARE:.1%} of the data.",
            f"At most {most:,} bytes, {most / size:.1%} of the {size:,} bytes of the rows; "
            f"{sum(other.bytes <= MOST_BYTES for _, other in pairs)} of {len(pairs)} points with l={L} stay below.",
            at_most([other.bytes for _, other in pairs], MOST_BYTES),
            "A message is counted once, as the paper's Figure 3 lays it out; how often one is sent depends on merges, "
            "and those on choices that the paper leaves open.",
        ),
        claim(
            "l-diversity sends more bytes than k-anonymity, insignificantly so most of the time.",
            f"{spread(increases)}.",
            hardly_more_bytes(increases),
            "A message of l-diversity has 8 bytes more, one for each value of workclass; how many are sent changes "
            "in both directions.",
        ),
        claim(
            f"At most {MOST_CLUSTERS} clusters at a site, fewer than twice the limit of {CLUSTERS}.",
            f"At most {max(clusters)}; fewer than {2 * CLUSTERS} at {sum(most < 2 * CLUSTERS for most in clusters)} of "
            f"{len(clusters)} points.",
            at_most(clusters, 2 * CLUSTERS - 1),
            "Clusters that others share come on top of the limit, and with many sites and small clusters there are "
            "many of those.",
        ),
    )
    rows = [
        (
            f"5{letter}",
            str(sweep),
            *(f"{max(pair[number].bytes for pair in _pairs(study, sweep.settings())):,}" for number in (0, 1)),
            str(max(other.most_clusters for pair in _pairs(study, sweep.settings()) for other in pair)),
        )
        for letter, sweep in zip(LETTERS, _sweeps(study), strict=True)
    ]
    return Result(
        figure="5",
        title="bytes sent, all points",
        setting=study.about(f"dCASTLE as printed, all points of Figure 5 with l={L} and without"),
        claims=claims,
        columns=("figure", "varied", "most bytes, k-anonymity", f"most bytes, l={L}", "most clusters"),
        rows=tuple(rows),
        notes=(
            f"The paper's data set has 6.6 million bytes; the same rows as text have {size:,}. Two bytes for each "
            "character would explain it.",
        ),
    )


def _increase(plain: Outcome, diverse: Outcome) -> float:
    return diverse.bytes / plain.bytes - 1 if plain.bytes else 0.0
