"""Audit sections on persons: the risk of identification in one group, and over several."""

from collections.abc import Iterator

import numpy as np

from castleguard.judge.attack import linkage, longitudinal
from castleguard.judge.attack.longitudinal import LeftOver
from castleguard.judge.audit.material import Material
from castleguard.judge.reading.linked import Linked
from castleguard.judge.reading.originals import read_originals
from castleguard.judge.report.findings import Figure, Finding, Section, finding
from castleguard.schema.roles import Schema

_PROSECUTOR = "Can a person who is known to be in the file be identified?"
_ROWS = "Does one person dominate a group?"
_JOURNALIST = "Can a person who may be in the file be identified?"
_MARKETER = "How many persons does an attacker identify by guessing in every group?"
_GROUPS = "How many candidates are left after intersecting a person's groups?"
_VALUES = "How many candidates are left after matching a person's known values?"
_POINTS = "The file has no groups: every number is a noisy mean."
_LINK = "Counting persons needs a link column."
_NOT_PROMISED = "k-anonymity protects within one group at a time and makes no promise about persons tracked over time."


def linkage_section(material: Material) -> Section:
    """Section on identification within one group."""
    return Section(
        id="linkage",
        title="Can persons be identified?",
        about="An attacker who knows a person's quasi-identifiers, such as age and district, looks for the group with "
        "these values and guesses. The prosecutor knows that the person is in the file, the journalist only that they "
        "may be, and the marketer wants to identify as many persons as possible. A guess among k persons is right once "
        "in k times.",
        findings=tuple(_linkage(material)),
    )


def longitudinal_section(material: Material) -> Section:
    """Section on persons with rows in several groups."""
    return Section(
        id="longitudinal",
        title="Can persons be tracked over time?",
        about="A stream publishes the same persons repeatedly. Every group has at least k persons, but few persons are "
        f"in all groups of one person. {_NOT_PROMISED} These findings show how far an attacker gets who tracks a "
        "person.",
        findings=tuple(_longitudinal(material)),
    )


def _linkage(material: Material) -> Iterator[Finding]:
    if material.kind == "points":
        yield finding("prosecutor", _PROSECUTOR, "not checked", _POINTS)
        return
    linked, threshold = material.linked, material.threshold
    if linked is None:
        yield _unlinked(material)
    else:
        yield _prosecutor(linked, material.policy.k, threshold)
        yield _share_of_rows(linked, threshold)
        yield finding(
            "marketer",
            _MARKETER,
            "passed",
            f"An attacker who guesses in every group is right in {100 * linkage.marketer(linked):.1f} % of cases.",
            share=linkage.marketer(linked),
        )
    yield _journalist(material)


def _prosecutor(linked: Linked, k: int | None, threshold: float) -> Finding:
    risks = linkage.prosecutor(linked, threshold=threshold)
    broken = k is not None and risks.highest > 1 / k + 1e-12
    text = (
        f"The probability of being identified is {risks.highest:.3f} for the most exposed person (one person of the "
        f"smallest group) and {risks.mean:.3f} on average; it is above {threshold:g} for {100 * risks.above:.1f} % of "
        f"persons."
    )
    if broken:
        text += f" With {k} persons in every group it would be at most {1 / (k or 1):.3f}."
    return Finding(
        id="prosecutor",
        title=_PROSECUTOR,
        status="failed" if broken else "warning" if risks.above else "passed",
        sentence=text,
        figures={"highest": risks.highest, "mean": risks.mean, "above": risks.above, "threshold": threshold},
    )


def _share_of_rows(linked: Linked, threshold: float) -> Finding:
    shares = linkage.share_of_rows(linked)
    highest = float(shares.max(initial=0.0))
    above = float(np.mean(shares > threshold)) if shares.size else 0.0
    text = (
        f"One person has up to {100 * highest:.0f} % of the rows of a group; {100 * above:.1f} % of persons have more "
        f"than {100 * threshold:g} % of the rows of one of their groups."
    )
    if above:
        text += " A random row of that group is theirs with this probability, although the group has k persons."
    return finding("share-of-rows", _ROWS, "warning" if above else "passed", text, highest=highest, above=above)


def _unlinked(material: Material) -> Finding:
    rows = np.bincount(material.groups, minlength=material.group_count)
    most = material.bounded.most_persons if material.kind == "true boxes" else rows
    least = 1.0 / max(int(most.min(initial=material.published.num_rows)), 1)
    return finding(
        "prosecutor",
        _PROSECUTOR,
        "not checked",
        f"{_LINK} The size of the smallest group shows that the highest probability of being identified is at least "
        f"{least:.3f}.",
        at_least=least,
    )


def _journalist(material: Material) -> Finding:
    if material.population is None:
        return finding("journalist", _JOURNALIST, "not checked", "This check needs a table of the population.")
    if material.kind == "noisy boxes":
        why = "Ranges hold randomised values, so the true values of a person in the population may lie outside."
        return finding("journalist", _JOURNALIST, "not checked", why)
    population = read_originals(material.population, _population_schema(material))
    counts = linkage.population_counts(material.sides, material.groups, population)
    fewest = int(counts.min(initial=material.population.num_rows))
    if material.linked is None:
        text = (
            f"Every group matches at least {fewest:,} persons of the population, so if the population is complete, the "
            f"probability of being identified is at most {1 / max(fewest, 1):.3f}."
        )
        return finding("journalist", _JOURNALIST, "passed", text, fewest=fewest, highest=1 / max(fewest, 1))
    risks = linkage.journalist(material.linked, counts, threshold=material.threshold)
    found = linkage.marketer_of_population(material.linked, counts)
    text = (
        f"In a population of {material.population.num_rows:,} rows, the probability of being identified is "
        f"{risks.highest:.3f} for the most exposed person and {risks.mean:.3f} on average; an attacker who guesses in "
        f"every group is right with probability {found:.3f}."
    )
    return finding(
        "journalist", _JOURNALIST, "warning" if risks.above else "passed", text,
        highest=risks.highest, mean=risks.mean, above=risks.above, marketer=found, fewest=fewest,
    )  # fmt: skip


def _population_schema(material: Material) -> Schema:
    """Schema of a population table. Without a person column, each row is a person."""
    assert material.population is not None
    person = material.schema.person_role
    return Schema(
        person=person if person is not None and person.name in material.population.column_names else None,
        quasi_identifiers=material.schema.quasi_identifiers,
    )


def _longitudinal(material: Material) -> Iterator[Finding]:
    if material.linked is None or material.followed is None:
        why = _POINTS if material.kind == "points" else _LINK
        yield finding("left-by-groups", _GROUPS, "not checked", why)
        yield finding("left-by-values", _VALUES, "not checked", why)
        return
    yield _left("left-by-groups", _GROUPS, material.followed, material.policy.k or 1, "knows the group of each row")
    if material.kind == "noisy boxes":
        why = "Ranges hold randomised values, so a person's true values may lie outside the ranges of their own rows."
        yield finding("left-by-values", _VALUES, "not checked", why)
        return
    left = longitudinal.by_values(material.linked, seed=material.seed)
    yield _left("left-by-values", _VALUES, left, material.policy.k or 1, "knows the values of each row")


def _left(id: str, title: str, left: LeftOver, k: int, knows: str) -> Finding:
    if not left.sizes.size:
        return finding(id, title, "passed", "No person has several published rows.", followed=0)
    figures: dict[str, Figure] = {"followed": left.followed, "looked at": int(left.sizes.size), **left.percentiles()}
    figures |= {"alone": left.alone, "below k": left.below(k)}
    of = f"{left.sizes.size:,}" if left.sizes.size == left.followed else f"{left.sizes.size:,} of {left.followed:,}"
    text = (
        f"Persons with several rows that were attacked: {of}. For an attacker who {knows}, {100 * left.alone:.1f} % of "
        f"them are the only candidate left and {100 * left.below(k):.1f} % have fewer than {k} candidates left; the "
        f"median is {left.percentiles()['50 %']:,}."
    )
    small = left.below(k) > 0
    if small:
        text += f" {_NOT_PROMISED}"
    return Finding(id=id, title=title, status="warning" if small else "passed", sentence=text, figures=figures)
