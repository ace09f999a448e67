"""Audit section on attacks: what an attacker with the published file achieves."""

from collections.abc import Iterator

import numpy as np

from castleguard.algorithms.policy import Policy
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

_SAMPLE = 300  # rows of the streams published for the attack
_LARGEST_SAMPLE = 3000
_OFTEN = 0.5  # warn if this share of bounds equals a member's value
_NEEDS_LINK = "This check needs a link column."


def attack_section(material: Material) -> Section:
    """Section on four known attacks."""
    return Section(
        id="attacks",
        title="What does an attacker see?",
        about="Four attacks from the literature on anonymised streams: counting rows, reading values off the bounds "
        "of ranges, finding groups whose rows share a sensitive value, and finding groups with many rows but few "
        "persons. Most of them do not break a promise; they show what the promise leaves open.",
        findings=tuple(_findings(material)),
    )


def uniformity(material: Material) -> list[Uniform]:
    """Agreement within groups in each sensitive column, counted by published rows."""
    found = []
    for role in material.schema.sensitive:
        values = value_codes(material.published.column(role.name), role)
        found.append(observe_values(role.name, tally(material.groups, values, None, count=material.group_count)))
    return found


def _findings(material: Material) -> Iterator[Finding]:
    yield _enumeration(material)
    if material.kind == "points":
        why = "The file has no groups: every number is a noisy mean."
        for id, title in (("boundaries", _BOUNDARIES), ("homogeneity", _HOMOGENEITY), ("duplication", _DUPLICATION)):
            yield finding(id, title, "not checked", why)
        return
    yield _boundaries(material)
    yield from _homogeneity(material)
    yield _duplication(material)


_ENUMERATION = "Does the number of rows reveal who took part?"
_BOUNDARIES = "Are the bounds of ranges values of persons?"
_HOMOGENEITY = "Do all rows of a group share a sensitive value?"
_DUPLICATION = "Do groups have enough rows but too few persons?"


def _enumeration(material: Material) -> Finding:
    policy = material.policy
    why_not = None
    if not material.attack_runs:
        why_not = "The number of attack runs is 0."
    elif not material.promised.alone:
        why_not = "Several sites publish together, and a single stream says nothing about their release."
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
        f"The attack guesses from the number of published rows whether one row was in a stream of {usable.size:,} "
        f"rows. {100 * counted.chance:.0f} % of {2 * counted.runs:,} guesses were right (a coin: 50 %; "
        f"{100 * material.confidence:g} % confidence limits: {100 * low:.0f} to {100 * high:.0f} %)."
    )
    figures: dict[str, Figure] = {"right": counted.chance, "low": low, "high": high, "runs": counted.runs}
    figures["always"] = str(counted.always).lower()
    if allowed is not None:
        figures["allowed"] = allowed
        text = f"{guess} The claim allows up to {100 * allowed:.0f} %."
        status: Status = "failed" if low > allowed else "passed"
        return Finding(id="enumeration", title=_ENUMERATION, status=status, sentence=text, figures=figures)
    if low > 0.5:
        always = " The number depends only on the input, not on random draws." if counted.always else ""
        text = f"{guess}{always} The presence of a row is not hidden, and the policy does not promise to hide it."
        return Finding(id="enumeration", title=_ENUMERATION, status="warning", sentence=text, figures=figures)
    return Finding(id="enumeration", title=_ENUMERATION, status="passed", sentence=guess, figures=figures)


def _boundaries(material: Material) -> Finding:
    if material.linked is None:
        return finding("boundaries", _BOUNDARIES, "not checked", _NEEDS_LINK)
    seen = observe_bounds(material.linked)
    if not seen.bounds:
        return finding("boundaries", _BOUNDARIES, "not checked", "The file has no ranges of numbers.")
    text = (
        f"{100 * seen.share:.0f} % of {seen.bounds:,} published bounds equal the value of a person in the group; "
        f"{100 * seen.chance:.0f} % are expected by chance, because values can lie on bounds."
    )
    if seen.share >= _OFTEN:
        text += " An attacker can read values off such tight bounds; a coarser step in the schema hides them."
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
            f"{seen.column}: guessing the most frequent value of a group is right for {100 * seen.mean:.0f} % of its "
            f"rows on average and {100 * seen.highest:.0f} % in the worst group; without groups it is right for "
            f"{100 * seen.prior:.0f} %. "
        )
        if seen.same:
            text += (
                f"Groups in which all rows have the same value: {seen.same:,}. Knowing that a person is in such a "
                f"group reveals their value. Set l to at least 2."
            )
        else:
            text += "Every group has several values."
        id = "homogeneity" if len(material.schema.sensitive) == 1 else f"homogeneity-{seen.column}"
        yield finding(
            id, _HOMOGENEITY, "warning" if seen.same else "passed", text,
            same=seen.same, highest=seen.highest, mean=seen.mean, prior=seen.prior, gain=seen.gain,
        )  # fmt: skip


def _duplication(material: Material) -> Finding:
    k = material.policy.k
    if material.linked is None or k is None:
        return finding("duplication", _DUPLICATION, "not checked", _NEEDS_LINK)
    return none_of(
        "duplication",
        _DUPLICATION,
        count_duplicated(material.linked, k),
        good=f"No group has {k} or more rows from fewer than {k} persons.",
        bad=f"Groups with {k} or more rows from fewer than {k} persons",
        remark="At least one person has several rows in each of them.",
    )


def _sample_size(policy: Policy) -> int:
    """Rows of a stream that is long enough to publish something."""
    k = policy.k or 1
    closeness = getattr(policy, "closeness", None)
    wait = 0 if closeness is None else 2 * closeness.chosen_burn_in(getattr(policy, "delay", _SAMPLE))
    return min(max(_SAMPLE, 3 * k, wait), _LARGEST_SAMPLE)
