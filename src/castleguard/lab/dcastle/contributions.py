"""Section 6.1: contributions of the parameters to the variation of the loss, in a 2^4 and a 2^5 design.

The 2^5 design asks for l = 10 of workclass, which has eight values, seven of them in the data: no cluster can ever be
published. These runs are made nevertheless, to show it; the verdicts use l = 6, the largest that the paper asks of
workclass elsewhere.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from castleguard.lab.dcastle.charts import Bars, draw_bars
from castleguard.lab.dcastle.contenders import DISTRIBUTED
from castleguard.lab.dcastle.design import Setting, small
from castleguard.lab.dcastle.factorial import Contribution, Factor, allocate, corners
from castleguard.lab.dcastle.judging import always, at_most, claim, combined, same_share
from castleguard.lab.dcastle.runs import Point
from castleguard.lab.dcastle.study import Study
from castleguard.lab.result import Claim, Result

FIGURES = ("6.1-k", "6.1-l")
FACTORS = (Factor("columns", 2, 10), Factor("k", 20, 400), Factor("delay", 1_000, 30_000), Factor("sites", 2, 10))
L, L_POSSIBLE = Factor("l", 2, 10), Factor("l", 2, 6)

Stated = Mapping[tuple[str, ...], float]
"""The paper's shares, by factors."""
_STATED = {  # in the 2^4 design, which has no l, and in the 2^5 design
    ("QI",): (0.58, 0.75),
    ("k",): (0.19, 0.09),
    ("delay",): (0.09, 0.06),
    ("n",): (0.015, 0.01),
    ("l",): (None, 0.0),
    ("QI", "k"): (0.07, 0.025),
    ("QI", "delay"): (0.03, 0.03),
    ("k", "delay"): (0.02, 0.02),
}
STATED_K: Stated = {factors: share for factors, (share, _) in _STATED.items() if share is not None}
STATED_L: Stated = {factors: share for factors, (_, share) in _STATED.items()}
_GROWS = {"QI": True, "k": True, "delay": False, "n": True}
_WHY = (
    "QI=2 are here the first two attributes in the paper's order, age and final-weight. It does not say which two it "
    "took, and omits its losses, so the cause of the difference is unknown."
)


def points(study: Study) -> list[Point]:
    """All corners of both designs, and of the one that can be judged."""
    return [
        (DISTRIBUTED, setting)
        for last in (Factor("l", 1, 2), L_POSSIBLE, L)
        for setting in corners([*_factors(study), last], Setting())
    ]


def results(study: Study) -> list[Result]:
    """One result per design."""
    return [_without_l(study), _with_l(study)]


def _factors(study: Study) -> list[Factor]:
    if not study.quick:
        return list(FACTORS)
    return [Factor(each.varied, small(each.varied, each.low), small(each.varied, each.high)) for each in FACTORS]


def _without_l(study: Study) -> Result:
    factors = _factors(study)
    found = _allocated(study, factors, Setting(l=1))
    return Result(
        figure=FIGURES[0],
        title="what the parameters contribute to the loss, k-anonymity",
        setting=study.about(f"k-anonymity, {_levels(factors)}: {2 ** len(factors)} runs"),
        claims=(_directions(found), *_shares(found, STATED_K, largest="QI")),
        columns=("factors", "share in the paper", "share here", "effect on the loss"),
        rows=tuple(_rows(found, STATED_K)),
        draw=partial(draw_bars, _bars(STATED_K, {"here": found})),
        size=(8.5, 4.5),
        notes=(
            "The effect is half the change of the loss from the low to the high value; one run per corner, so that no "
            "share is left for chance.",
        ),
    )


def _with_l(study: Study) -> Result:
    common, values = _factors(study), study.runs.data.values(Setting().sensitive)
    stated, possible = (_allocated(study, [*common, last], Setting()) for last in (L, L_POSSIBLE))
    rows = [
        (*row, _share(other.share))
        for row, other in zip(_rows(possible, STATED_L), _in_order(stated, STATED_L), strict=True)
    ]
    return Result(
        figure=FIGURES[1],
        title="what the parameters contribute to the loss, l-diversity",
        setting=study.about(
            f"l of {Setting().sensitive}, {_levels([*common, L_POSSIBLE])}, and again with l={L.low} and {L.high}: "
            f"{3 * 2 ** len(common)} runs"
        ),
        claims=(
            _impossible(study, [*common, L], stated, values),
            _directions(possible),
            *_shares(possible, STATED_L, largest="QI"),
        ),
        columns=(
            "factors",
            "share in the paper",
            f"share here, l={L_POSSIBLE.low} and {L_POSSIBLE.high}",
            "effect on the loss",
            f"share here, l={L.low} and {L.high}",
        ),
        rows=tuple(rows),
        draw=partial(
            draw_bars,
            _bars(
                STATED_L,
                {
                    f"here, l={L_POSSIBLE.low} and {L_POSSIBLE.high}": possible,
                    f"here, l={L.low} and {L.high}": stated,
                },
            ),
        ),
        size=(9.5, 4.5),
        notes=(
            f"The statements are judged with l={L_POSSIBLE.high} for the high value, the largest l that the paper asks "
            "of workclass in its figures.",
        ),
    )


def _allocated(study: Study, factors: Sequence[Factor], base: Setting) -> list[Contribution]:
    losses = [study.runs.outcome(DISTRIBUTED, setting).loss for setting in corners(factors, base)]
    return allocate(losses, [factor.sign for factor in factors])


# -- Claims ------------------------------------------------------------------------------------------------------------


def _impossible(study: Study, factors: Sequence[Factor], found: Sequence[Contribution], values: int) -> Claim:
    """Whether l is possible at all."""
    outcomes = [study.runs.outcome(DISTRIBUTED, setting) for setting in corners(factors, Setting())]
    high = outcomes[len(outcomes) // 2 :]
    rows = study.runs.data.table.num_rows
    silent = sum(outcome.suppressed == rows for outcome in high)
    of_l = _by_factors(found)["l",]
    return claim(
        f"The factor l goes from {L.low} to {L.high}, of workclass, and contributes nothing.",
        f"Workclass has {values} values in these rows: in {silent} of {len(high)} runs with l={L.high} every row was "
        f"suppressed, and l contributes {of_l.share:.0%}.",
        "not comparable" if values < L.high else same_share(of_l.share, 0.0),
        f"No cluster can have {L.high} of {values} values; what the paper ran instead is not known. All further "
        f"statements are judged with l={L_POSSIBLE.high}."
        if values < L.high
        else _WHY,
    )


def _directions(found: Sequence[Contribution]) -> Claim:
    effects = {factors[0]: effect for factors, effect, _ in found if len(factors) == 1}
    right = [effects[sign] > 0 if grows else effects[sign] < 0 for sign, grows in _GROWS.items()]
    wrong = [sign for sign, holds in zip(_GROWS, right, strict=True) if not holds]
    return claim(
        "The loss grows with QI, k and n, and falls with the delay.",
        "Effects on the loss: " + ", ".join(f"{sign} {effects[sign]:+.3f}" for sign in _GROWS) + ".",
        always(right),
        f"It is the other way round for {' and '.join(wrong)}.",
    )


def _shares(found: Sequence[Contribution], stated: Stated, *, largest: str) -> list[Claim]:
    """One claim per factor, and one for the interactions that the paper names."""
    shares = {each.factors: each.share for each in found}
    claims = []
    for factors, share in stated.items():
        if len(factors) > 1:
            continue
        (sign,), own = factors, shares[factors]
        verdict = at_most([own], share) if sign == "n" else same_share(own, share)
        first = max(shares, key=lambda key: shares[key]) == factors
        if sign == largest:
            # The statement also says that it is the largest.
            verdict = verdict if first else "not reproduced"
            verdict = "partly" if first and verdict == "not reproduced" else verdict
        leads = f", the {'largest' if first else 'second at best'}" if sign == largest else ""
        bound = "at most " if sign == "n" else ""
        wanted = f"{sign} contributes {bound}{share:.1%} of the variation" + (", more than others." if leads else ".")
        claims.append(claim(wanted, f"{own:.1%}{leads}.", verdict, _WHY))
    pairs = [factors for factors in stated if len(factors) > 1]
    claims.append(
        claim(
            "Interactions: " + ", ".join(f"{_name(pair)} {stated[pair]:.1%}" for pair in pairs) + ".",
            ", ".join(f"{_name(pair)} {shares[pair]:.1%}" for pair in pairs) + ".",
            combined([same_share(shares[pair], stated[pair]) for pair in pairs]),
            _WHY,
        )
    )
    return claims


# -- Tables and bars ---------------------------------------------------------------------------------------------------


def _by_factors(found: Sequence[Contribution]) -> dict[tuple[str, ...], Contribution]:
    return {each.factors: each for each in found}


def _in_order(found: Sequence[Contribution], stated: Stated) -> list[Contribution]:
    """Factors that the paper names, then all others."""
    known = _by_factors(found)
    return [known[factors] for factors in stated] + [each for each in found if each.factors not in stated]


def _rows(found: Sequence[Contribution], stated: Stated) -> list[tuple[str, ...]]:
    return [
        (
            _name(each.factors),
            _share(stated[each.factors]) if each.factors in stated else "-",
            _share(each.share),
            f"{each.effect:+.4f}",
        )
        for each in _in_order(found, stated)
    ]


def _bars(stated: Stated, found: Mapping[str, Sequence[Contribution]]) -> Bars:
    """Factors that the paper names, and the sum of the rest."""
    rest = 1 - sum(stated.values())
    series: list[tuple[str, tuple[float | None, ...]]] = [("the paper", (*stated.values(), rest))]
    for name, contributions in found.items():
        known = _by_factors(contributions)
        shares = [known[factors].share for factors in stated]
        series.append((name, (*shares, sum(each.share for each in contributions) - sum(shares))))
    return Bars(names=(*(_name(factors, "\nand ") for factors in stated), "all others"), series=tuple(series))


def _name(factors: Sequence[str], between: str = "-") -> str:
    return between.join(factors)


def _share(share: float) -> str:
    return f"{share:.1%}"


def _levels(factors: Sequence[Factor]) -> str:
    return ", ".join(f"{factor.sign}={factor.low:,} and {factor.high:,}" for factor in factors)
