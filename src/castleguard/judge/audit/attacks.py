"""The section on attacks: what somebody achieves who holds the published file."""

from collections.abc import Iterator

import numpy as np

from castleguard.algorithms.base import Policy
from castleguard.judge.attack.adversary import (
    Uniform,
    count_duplicated,
    enumerate_rows,
    highest_chance,
    observe_bounds,
    observe_values,
)
from castleguard.judge.audit.material import Material
from castleguard.judge.publishing import publisher, quiet
from castleguard.judge.report.findings import Figure, Finding, Section, Status, finding, none_of
from castleguard.judge.verify.group_values import tally, value_codes

_SAMPLE = 300  # rows of the streams that are published anew
_LARGEST_SAMPLE = 3000
_OFTEN = 0.5  # the share of bounds from which on they give values away
_NUMBERS_LINK = "This needs a column that links the rows."


def attack_section(material: Material) -> Section:
    """What an attacker sees."""
    return Section(
        id="attacks",
        title="What does an attacker see?",
        about="Four attacks that are known from the literature on anonymised streams: counting rows, looking at the "
        "ends of ranges, looking for groups that share a sensitive value, and looking for groups that are many "
        "rows of few persons. Most of them break no promise; they say what the promise leaves open.",
        findings=tuple(_findings(material)),
    )


def uniformity(material: Material) -> list[Uniform]:
    """How far the groups agree in each sensitive column, by rows, as anybody sees it."""
    found = []
    for role in material.schema.sensitive:
        values = value_codes(material.published.column(role.name), role)
        found.append(observe_values(role.name, tally(material.groups, values, None, count=material.group_count)))
    return found


def _findings(material: Material) -> Iterator[Finding]:
    yield _enumeration(material)
    if material.kind == "points":
        why = "There are no groups: every number is a noisy mean."
        for id, title in (("boundaries", _BOUNDARIES), ("homogeneity", _HOMOGENEITY), ("duplication", _DUPLICATION)):
            yield finding(id, title, "not checked", why)
        return
    yield _boundaries(material)
    yield from _homogeneity(material)
    yield _duplication(material)


_ENUMERATION = "Does the number of rows tell who took part?"
_BOUNDARIES = "Are the ends of ranges somebody's values?"
_HOMOGENEITY = "Do groups share a sensitive value?"
_DUPLICATION = "Are groups many rows of few persons?"


def _enumeration(material: Material) -> Finding:
    policy = material.policy
    why_not = None
    if not material.attack_runs:
        why_not = "No runs were asked for."
    elif not material.promised.alone:
        why_not = "Several sites publish together: one stream by itself would say nothing about them."
    usable = np.flatnonzero(material.accepted)[: _sample_size(policy)]
    if why_not is None and usable.size < 2:
        why_not = "The original has too few rows."
    if why_not is not None:
        return finding("enumeration", _ENUMERATION, "not checked", why_not)
    stream = material.original.select(list(material.schema.columns)).take(usable)
    with quiet():
        counted = enumerate_rows(
            publisher(material.schema, policy),
            stream,
            at=usable.size // 2,
            runs=material.attack_runs,
            seed=material.seed,
            confidence=material.confidence,
        )
    low, high = counted.limits
    claim = policy.guarantee(material.schema, seeded=False).privacy
    hidden = claim is not None and claim.neighbours.startswith("with and without")
    allowed = highest_chance(claim.epsilon, claim.dp_delta) if claim is not None and hidden else None
    guess = (
        f"Of {2 * counted.runs:,} guesses from the number of published rows alone whether one row had been in a stream "
        f"of {usable.size:,}, {100 * counted.chance:.0f} % were right (a coin: 50 %; {100 * material.confidence:g} % "
        f"limits: {100 * low:.0f} to {100 * high:.0f} %)."
    )
    figures: dict[str, Figure] = {"right": counted.chance, "low": low, "high": high, "runs": counted.runs}
    figures["always"] = str(counted.always).lower()
    if allowed is not None:
        figures["allowed"] = allowed
        text = f"{guess} The claim allows {100 * allowed:.0f} %."
        status: Status = "failed" if low > allowed else "passed"
        return Finding(id="enumeration", title=_ENUMERATION, status=status, sentence=text, figures=figures)
    if low > 0.5:
        always = " The number follows from the input, whatever is drawn." if counted.always else ""
        text = f"{guess}{always} That a row is there is not hidden, and was not promised to be."
        return Finding(id="enumeration", title=_ENUMERATION, status="warning", sentence=text, figures=figures)
    return Finding(id="enumeration", title=_ENUMERATION, status="passed", sentence=guess, figures=figures)


def _boundaries(material: Material) -> Finding:
    if material.linked is None:
        return finding("boundaries", _BOUNDARIES, "not checked", _NUMBERS_LINK)
    seen = observe_bounds(material.linked)
    if not seen.bounds:
        return finding("boundaries", _BOUNDARIES, "not checked", "There are no published ranges of numbers.")
    text = (
        f"{100 * seen.share:.0f} % of {seen.bounds:,} published bounds equal the value of somebody inside; chance "
        f"alone would give {100 * seen.chance:.0f} %, since values can lie on bounds."
    )
    if seen.share >= _OFTEN:
        text += " Whoever knows that bounds are tight reads values off them: a coarser step in the schema hides them."
    return finding(
        "boundaries", _BOUNDARIES, "warning" if seen.share >= _OFTEN else "passed", text,
        bounds=seen.bounds, own=seen.own, share=seen.share, chance=seen.chance,
    )  # fmt: skip


def _homogeneity(material: Material) -> Iterator[Finding]:
    if not material.schema.sensitive:
        yield finding("homogeneity", _HOMOGENEITY, "not checked", "The schema has no sensitive column.")
    for seen in uniformity(material):
        if not seen.shares.size:
            yield finding("homogeneity", _HOMOGENEITY, "not checked", "Nothing was published.")
            return
        text = (
            f"{seen.column}: whoever guesses the most frequent value of a group is right in {100 * seen.mean:.0f} % of "
            f"rows in the mean over groups and {100 * seen.highest:.0f} % in the worst; without groups "
            f"{100 * seen.prior:.0f} %. "
        )
        if seen.same:
            text += (
                f"In {seen.same:,} groups all rows have the same value: to know that somebody is in such a group is to "
                f"know the value. Ask for l of at least 2."
            )
        else:
            text += "No group has only one value."
        id = "homogeneity" if len(material.schema.sensitive) == 1 else f"homogeneity-{seen.column}"
        yield finding(
            id, _HOMOGENEITY, "warning" if seen.same else "passed", text,
            same=seen.same, highest=seen.highest, mean=seen.mean, prior=seen.prior, gain=seen.gain,
        )  # fmt: skip


def _duplication(material: Material) -> Finding:
    k = material.policy.k
    if material.linked is None or k is None:
        return finding("duplication", _DUPLICATION, "not checked", _NUMBERS_LINK)
    return none_of(
        "duplication",
        _DUPLICATION,
        count_duplicated(material.linked, k),
        good=f"No group has {k} rows or more of fewer than {k} persons.",
        bad=f"groups have {k} rows or more, but of fewer than {k} persons: one person stands in them several times.",
    )


def _sample_size(policy: Policy) -> int:
    """Enough rows for something to be published."""
    k = policy.k or 1
    closeness = getattr(policy, "closeness", None)
    wait = 0 if closeness is None else 2 * closeness.chosen_burn_in(getattr(policy, "delay", _SAMPLE))
    return min(max(_SAMPLE, 3 * k, wait), _LARGEST_SAMPLE)
