"""Findings on diversity and closeness, as far as they are promised and a file can show them."""

from collections.abc import Iterator

import numpy as np

from castleguard.judge.audit.material import Material
from castleguard.judge.reading.equality import NO_PERSON
from castleguard.judge.reading.values import Codes
from castleguard.judge.report.findings import Finding, finding, none_of
from castleguard.judge.verify import group_values as judged
from castleguard.judge.verify import release_times
from castleguard.privacy.closeness import Closeness
from castleguard.privacy.criteria import Criteria
from castleguard.schema.sensitive import Sensitive

_NO_LINK = (
    "Each person counts once per value, and without a link column it is unknown which rows belong to the same person. "
    "Name a column that numbers the rows."
)
_REPEATED = (
    "In each of them a person has the same value twice, so every release may have passed and only their union fails; "
    "docs/concepts/criteria.md explains how."
)


def distribution_findings(material: Material) -> Iterator[Finding]:
    """One finding per promised criterion, over all sensitive columns."""
    promised = material.criteria
    if promised is None:
        return
    if promised.l > 1:
        yield _distinct(material, promised)
    if not promised.judges_shape:
        return
    by_rows = material.promised.form == "cells" or material.promised.counts_rows
    linked = material.linked
    if linked is None and not by_rows:
        for id, title in _promised_titles(promised):
            yield finding(id, title, "not checked", _NO_LINK)
        return
    if linked is None or by_rows:
        groups, persons = material.groups, None
        known: Codes = np.arange(material.published.num_rows)
    else:
        known = linked.known
        groups, persons = material.groups[known], linked.originals.persons[linked.row[known]]
    columns, tallies = [], []
    for role in material.schema.sensitive:
        values = judged.value_codes(material.published.column(role.name), role)[known]
        columns.append((role, judged.tally(groups, values, persons, count=material.group_count)))
        tallies.append(columns[-1][1])
        if persons is not None and np.any(persons == NO_PERSON):
            # Rows without a person must not make a group diverse, so judge it with and without them.
            named = persons != NO_PERSON
            counted = judged.tally(groups[named], values[named], persons[named], count=material.group_count)
            tallies.append(counted)
    if promised.diversity == "entropy":
        yield _summarise("entropy", promised, [judged.judge_entropy(counted, promised.l) for counted in tallies])
    if promised.diversity == "recursive":
        c = promised.c or 0.0
        verdicts = [judged.judge_recursive(counted, c=c, l=promised.l) for counted in tallies]
        yield _summarise("recursive", promised, verdicts)
    if promised.closeness is not None:
        yield _close(material, promised, promised.closeness, columns)


def _promised_titles(promised: Criteria) -> Iterator[tuple[str, str]]:
    if promised.diversity == "entropy":
        yield "entropy", _TITLES["entropy"]
    if promised.diversity == "recursive":
        yield "recursive", _TITLES["recursive"]
    if promised.closeness is not None:
        yield "closeness", _TITLES["closeness"]


_TITLES = {
    "entropy": "Is the entropy of sensitive values high enough?",
    "recursive": "Are the most frequent values rare enough?",
    "closeness": "Are values in groups distributed nearly as in all rows?",
}


def _distinct(material: Material, promised: Criteria) -> Finding:
    """Check the number of values per group, which needs a link only for `l_per="person"`."""
    fewest = np.full(material.group_count, np.iinfo(np.int64).max)
    linked = material.linked
    by_person = promised.l_per == "person" and linked is not None
    for role in material.schema.sensitive:
        whole = material.policy.strict  # strict streams count numbers without declared bins by their integer part
        values = judged.value_codes(material.published.column(role.name), role, whole=whole)
        if linked is not None:
            known = linked.known[linked.originals.persons[linked.row[linked.known]] != NO_PERSON]
        if by_person and linked is not None:
            persons = linked.originals.persons[linked.row[known]]
            found = judged.persons_apart(material.groups[known], values[known], persons, most=promised.l)
            found = np.pad(found, (0, material.group_count - found.size))
        else:
            groups, values = (material.groups, values) if linked is None else (material.groups[known], values[known])
            found = judged.distinct_values(judged.tally(groups, values, None, count=material.group_count))
        fewest = np.minimum(fewest, found)
    held = ", each held by a different person" if by_person else ""
    result = none_of(
        "distinct-values",
        "Does every group have l different sensitive values?",
        int(np.count_nonzero(fewest < promised.l)),
        good=f"Every group has at least {promised.l} different values of every sensitive column{held}.",
        bad=f"Groups with fewer than {promised.l} different values of a sensitive column{held}",
        asked=promised.l,
        fewest=int(fewest.min()) if fewest.size else None,
    )
    if promised.l_per == "person" and not by_person and result.status == "passed":
        return finding(
            "distinct-values",
            result.title,
            "not checked",
            f"Every group has {promised.l} different values. Checking that {promised.l} different persons hold them "
            f"needs a link column.",
            **{name: value for name, value in result.figures.items() if name in ("asked", "fewest")},
        )
    return result


def _close(
    material: Material, promised: Criteria, closeness: Closeness, columns: list[tuple[Sensitive, judged.Tally]]
) -> Finding:
    linked = material.linked
    verdicts = []
    for role, counted in columns:
        size = len(role.labels or ()) + 1
        if closeness.reference == "public":
            shares = closeness.public_shares(role.name, role.labels or ())
            column = release_times.Column(np.zeros(0, np.int64), size, closeness.distance, role.hierarchy)
            verdicts.append(release_times.judge_public(counted, closeness, column, shares))
            continue
        if linked is None or material.kind != "true boxes" or material.promised.counts_rows:
            return _unknown_reference(material)
        codes = judged.value_codes(material.original.column(role.name), role)[material.accepted]
        column = release_times.Column(codes, size, closeness.distance, role.hierarchy)
        if not release_times.can_follow(column):
            return finding(
                "closeness",
                _TITLES["closeness"],
                "not checked",
                f"The running distribution of {role.name} is too large to compute ({codes.size:,} rows, {size:,} "
                f"values).",
            )
        position = material.position[linked.row[linked.known]]
        delay = getattr(material.policy, "delay", codes.size)
        span = release_times.spans(
            material.groups[linked.known], position, delay=delay, arrivals=codes.size, count=material.group_count
        )
        verdicts.append(release_times.judge_running(counted, closeness, column, span))
    moving = "" if closeness.reference == "public" else _MOVING
    return _summarise("closeness", promised, verdicts, moving)


_MOVING = (
    "The promise concerns the moment of release, which a file does not show. Groups are compared with the distribution "
    "at the last possible moment, and fail only if no possible moment explains them."
)


def _unknown_reference(material: Material) -> Finding:
    why = (
        "The stream compared groups with all rows released up to their window, and a file does not show windows."
        if material.promised.form == "cells"
        else "The stream compared groups with the rows of earlier releases, including suppressed rows; a file shows "
        "neither."
        if material.promised.counts_rows
        else "The stream compared groups with the randomised values of all rows; the file has only published rows."
    )
    return finding("closeness", _TITLES["closeness"], "not checked", why)


def _summarise(id: str, promised: Criteria, verdicts: list[judged.Failures], remark: str = "") -> Finding:
    """One finding over all columns: proved broken, failed without proof, or passed."""
    failed = np.logical_or.reduce([each.failed for each in verdicts])
    proved = np.logical_or.reduce([each.proved for each in verdicts])
    what = {
        "entropy": f"an entropy of at least ln {promised.l}",
        "recursive": f"recursive ({promised.c}, {promised.l})-diversity",
        "closeness": str(promised.closeness),
    }[id]
    figures = {"groups": int(failed.size), "wrong": int(np.count_nonzero(proved)), "doubtful": 0}
    figures["doubtful"] = int(np.count_nonzero(failed)) - figures["wrong"]
    title = _TITLES[id]
    if figures["wrong"]:
        text = f"Groups without {what}, for any possible releases: {figures['wrong']:,}."
        return Finding(id=id, title=title, status="failed", sentence=text, figures=figures)
    if figures["doubtful"]:
        reason = remark or _REPEATED
        text = (
            f"Groups that, taken as a whole, do not have {what}: {figures['doubtful']:,}. None of them proves a broken "
            f"promise. {reason}"
        )
        return Finding(id=id, title=title, status="warning", sentence=text, figures=figures)
    text = f"Every group, taken as a whole, has {what}."
    return Finding(id=id, title=title, status="passed", sentence=f"{text} {remark}".strip(), figures=figures)
