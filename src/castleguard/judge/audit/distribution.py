"""Diversity and closeness of the groups of a file, as far as they were promised and a file can tell."""

from collections.abc import Iterator

import numpy as np

from castleguard.judge.audit.material import Material
from castleguard.judge.reading.identities import NOBODY
from castleguard.judge.reading.values import Codes
from castleguard.judge.report.findings import Finding, finding, none_of
from castleguard.judge.verify import group_values as judged
from castleguard.judge.verify import moments
from castleguard.privacy.closeness import Closeness
from castleguard.privacy.criteria import Criteria
from castleguard.schema.sensitive import Sensitive

_NO_LINK = (
    "A person counts once for a value, and without a link nobody knows whose rows these are: give a column that "
    "numbers the rows."
)
_REPEATED = (
    "In each of them a person has the same value twice, so that every release may have passed by itself and only their "
    "union fails: docs/concepts/criteria.md says why that can happen."
)


def distribution_findings(material: Material) -> Iterator[Finding]:
    """A finding for every criterion that was promised, over all sensitive columns."""
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
        for id, title in _asked(promised):
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
        if persons is not None and np.any(persons == NOBODY):
            # Rows without a person must not make a group diverse: it has to be with them and without them.
            named = persons != NOBODY
            counted = judged.tally(groups[named], values[named], persons[named], count=material.group_count)
            tallies.append(counted)
    if promised.diversity == "entropy":
        yield _tell("entropy", promised, [judged.judge_entropy(counted, promised.l) for counted in tallies])
    if promised.diversity == "recursive":
        c = promised.c or 0.0
        verdicts = [judged.judge_recursive(counted, c=c, l=promised.l) for counted in tallies]
        yield _tell("recursive", promised, verdicts)
    if promised.closeness is not None:
        yield _close(material, promised, promised.closeness, columns)


def _asked(promised: Criteria) -> Iterator[tuple[str, str]]:
    if promised.diversity == "entropy":
        yield "entropy", _TITLES["entropy"]
    if promised.diversity == "recursive":
        yield "recursive", _TITLES["recursive"]
    if promised.closeness is not None:
        yield "closeness", _TITLES["closeness"]


_TITLES = {
    "entropy": "Are values as uncertain as l equal ones?",
    "recursive": "Is no value too frequent?",
    "closeness": "Are groups distributed nearly as all rows are?",
}


def _distinct(material: Material, promised: Criteria) -> Finding:
    """Which values a group has can be seen by anybody: no link is needed, but for `l_per="person"`."""
    fewest = np.full(material.group_count, np.iinfo(np.int64).max)
    linked = material.linked
    by_person = promised.l_per == "person" and linked is not None
    for role in material.schema.sensitive:
        whole = material.policy.strict  # as the stream counts numbers that are not declared
        values = judged.value_codes(material.published.column(role.name), role, whole=whole)
        if linked is not None:
            known = linked.known[linked.originals.persons[linked.row[linked.known]] != NOBODY]
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
        "Does every group have l sensitive values?",
        int(np.count_nonzero(fewest < promised.l)),
        good=f"Every group has at least {promised.l} different values of every sensitive column{held}.",
        bad=f"groups have fewer than {promised.l} different values of a sensitive column{held}.",
        asked=promised.l,
        fewest=int(fewest.min()) if fewest.size else None,
    )
    if promised.l_per == "person" and not by_person and result.status == "passed":
        return finding(
            "distinct-values",
            result.title,
            "not checked",
            f"Every group has {promised.l} different values. Whether {promised.l} different persons hold them can only "
            f"be told with a link.",
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
            column = moments.Column(np.zeros(0, np.int64), size, closeness.distance, role.hierarchy)
            verdicts.append(moments.judge_public(counted, closeness, column, shares))
            continue
        if linked is None or material.kind != "true boxes" or material.promised.counts_rows:
            return _unknown_reference(material)
        codes = judged.value_codes(material.original.column(role.name), role)[material.accepted]
        column = moments.Column(codes, size, closeness.distance, role.hierarchy)
        if not moments.can_follow(column):
            return finding(
                "closeness",
                _TITLES["closeness"],
                "not checked",
                f"{codes.size:,} rows with {size:,} values of {role.name} are too many to follow their distribution.",
            )
        position = material.position[linked.row[linked.known]]
        delay = getattr(material.policy, "delay", codes.size)
        span = moments.spans(
            material.groups[linked.known], position, delay=delay, arrivals=codes.size, count=material.group_count
        )
        verdicts.append(moments.judge_running(counted, closeness, column, span))
    moving = "" if closeness.reference == "public" else _MOVING
    return _tell("closeness", promised, verdicts, moving)


_MOVING = (
    "The promise is for the moment of a release, which no file tells; compared is the distribution at the last moment "
    "possible, and a group is called broken only if no moment explains it."
)


def _unknown_reference(material: Material) -> Finding:
    why = (
        "Groups were compared with what had been released up to their own window, and a file does not tell windows."
        if material.promised.form == "cells"
        else "Groups were compared with the rows of earlier releases, suppressed ones too, and a file tells neither."
        if material.promised.counts_rows
        else "Groups were compared with randomised values of all rows, of which the file has only the published ones."
    )
    return finding("closeness", _TITLES["closeness"], "not checked", why)


def _tell(id: str, promised: Criteria, verdicts: list[judged.Failures], remark: str = "") -> Finding:
    """What was found in all columns: broken for certain, possibly explained, or neither."""
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
        text = f"{figures['wrong']:,} groups do not have {what}, however they were released."
        return Finding(id=id, title=title, status="failed", sentence=text, figures=figures)
    if figures["doubtful"]:
        reason = remark or _REPEATED
        text = f"{figures['doubtful']:,} groups taken as a whole do not have {what}; none is proof. {reason}"
        return Finding(id=id, title=title, status="warning", sentence=text, figures=figures)
    text = f"Every group, taken as a whole, has {what}."
    return Finding(id=id, title=title, status="passed", sentence=f"{text} {remark}".strip(), figures=figures)
