"""The sections on persons: how well they are found again in one group, and over many."""

from collections.abc import Iterator

import numpy as np

from castleguard.judge.attack import linkage, longitudinal
from castleguard.judge.attack.longitudinal import LeftOver
from castleguard.judge.audit.material import Material
from castleguard.judge.reading.linked import Linked
from castleguard.judge.reading.originals import read_originals
from castleguard.judge.report.findings import Figure, Finding, Section, finding
from castleguard.schema.roles import Schema

_PROSECUTOR = "Is a person found who is known to be in the file?"
_ROWS = "Does one person fill a group?"
_JOURNALIST = "Is a person found who may be in the file?"
_MARKETER = "How many are found by guessing everywhere?"
_GROUPS = "Followed from group to group: who is left?"
_VALUES = "Followed by known values: who is left?"
_POINTS = "There are no groups to be in: every number is a noisy mean."
_LINK = "This needs a column that links the rows: nobody else can count persons."
_NOT_PROMISED = "k-anonymity speaks of one group at a time and promises nothing to a person who is followed over time."


def linkage_section(material: Material) -> Section:
    """Who is found in one group."""
    return Section(
        id="linkage",
        title="Can persons be found again?",
        about="Somebody who knows a person's age, district and so on looks for the group with these values, and "
        "guesses. The prosecutor knows that the person is in the file, the journalist only that the person might be, "
        "the marketer does not care who is found. In groups of k persons no guess is right more often than once in k.",
        findings=tuple(_linkage(material)),
    )


def longitudinal_section(material: Material) -> Section:
    """Who is found in several."""
    return Section(
        id="longitudinal",
        title="Can persons be followed over time?",
        about="A stream publishes the same persons again and again. Every group has its k persons, but few persons are "
        f"in all the groups that one person is in. {_NOT_PROMISED} This is how far an attacker gets who follows "
        "somebody.",
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
            f"Whoever guesses in every group is right in {100 * linkage.marketer(linked):.1f} % of cases.",
            share=linkage.marketer(linked),
        )
    yield _journalist(material)


def _prosecutor(linked: Linked, k: int | None, threshold: float) -> Finding:
    risks = linkage.prosecutor(linked, threshold=threshold)
    broken = k is not None and risks.highest > 1 / k + 1e-12
    text = (
        f"The person that is exposed most is named rightly with probability {risks.highest:.3f} (1 of the persons of "
        f"the smallest group), persons in the mean with {risks.mean:.3f}; {100 * risks.above:.1f} % are above "
        f"{threshold:g}."
    )
    if broken:
        text += f" {k} persons in every group would allow {1 / (k or 1):.3f}."
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
        f"The rows of one person are up to {100 * highest:.0f} % of a group; for {100 * above:.1f} % of persons they "
        f"are more than {100 * threshold:g} % of one."
    )
    if above:
        text += " A row picked at random is theirs so often, though k persons are in the group."
    return finding("share-of-rows", _ROWS, "warning" if above else "passed", text, highest=highest, above=above)


def _unlinked(material: Material) -> Finding:
    rows = np.bincount(material.groups, minlength=material.group_count)
    most = material.bounded.most_persons if material.kind == "true boxes" else rows
    least = 1.0 / max(int(most.min(initial=material.published.num_rows)), 1)
    return finding(
        "prosecutor",
        _PROSECUTOR,
        "not checked",
        f"{_LINK} From the size of the smallest group the highest probability of being named rightly is at least "
        f"{least:.3f}.",
        at_least=least,
    )


def _journalist(material: Material) -> Finding:
    if material.population is None:
        return finding("journalist", _JOURNALIST, "not checked", "This needs a table of the population.")
    if material.kind == "noisy boxes":
        why = "Ranges hold randomised values: a true value of the population may lie outside."
        return finding("journalist", _JOURNALIST, "not checked", why)
    population = read_originals(material.population, _population_schema(material))
    counts = linkage.population_counts(material.sides, material.groups, population)
    fewest = int(counts.min(initial=material.population.num_rows))
    if material.linked is None:
        text = (
            f"At least {fewest:,} persons of the population have values inside the box of every group, so that nobody "
            f"is named rightly with more than {1 / max(fewest, 1):.3f}, if the population is complete."
        )
        return finding("journalist", _JOURNALIST, "passed", text, fewest=fewest, highest=1 / max(fewest, 1))
    risks = linkage.journalist(material.linked, counts, threshold=material.threshold)
    found = linkage.marketer_of_population(material.linked, counts)
    text = (
        f"Among {material.population.num_rows:,} rows of the population the person that is exposed most is named "
        f"rightly with probability {risks.highest:.3f}, persons in the mean with {risks.mean:.3f}; whoever "
        f"guesses everywhere with {found:.3f}."
    )
    return finding(
        "journalist", _JOURNALIST, "warning" if risks.above else "passed", text,
        highest=risks.highest, mean=risks.mean, above=risks.above, marketer=found, fewest=fewest,
    )  # fmt: skip


def _population_schema(material: Material) -> Schema:
    """A population has the quasi-identifiers, and persons if it can; a row of it is a person otherwise."""
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
    yield _left(
        "left-by-groups", _GROUPS, material.followed, material.policy.k or 1, "knows in which group each row is"
    )
    if material.kind == "noisy boxes":
        why = "Ranges hold randomised values: a person's true values need not lie in those of the same rows."
        yield finding("left-by-values", _VALUES, "not checked", why)
        return
    left = longitudinal.by_values(material.linked, seed=material.seed)
    yield _left("left-by-values", _VALUES, left, material.policy.k or 1, "knows the values of each row")


def _left(id: str, title: str, left: LeftOver, k: int, knows: str) -> Finding:
    if not left.sizes.size:
        return finding(id, title, "passed", "Nobody has several published rows.", followed=0)
    figures: dict[str, Figure] = {"followed": left.followed, "looked at": int(left.sizes.size), **left.percentiles()}
    figures |= {"alone": left.alone, "below k": left.below(k)}
    of = f"{left.sizes.size:,}" if left.sizes.size == left.followed else f"{left.sizes.size:,} of {left.followed:,}"
    text = (
        f"Of {of} persons with several rows, for an attacker who {knows}: {100 * left.alone:.1f} % are left alone, "
        f"{100 * left.below(k):.1f} % in a set of fewer than {k}; the median set has {left.percentiles()['50 %']:,}."
    )
    small = left.below(k) > 0
    if small:
        text += f" {_NOT_PROMISED}"
    return Finding(id=id, title=title, status="warning" if small else "passed", sentence=text, figures=figures)
