"""Audit section on the promise itself: columns, rows, groups, ranges, values and the delay."""

from collections.abc import Collection, Iterator

import numpy as np

from castleguard.judge.audit.distribution import distribution_findings
from castleguard.judge.audit.material import Material
from castleguard.judge.audit.means import DELAY, INSIDE, labels_finding, mean_findings
from castleguard.judge.reading.linked import Linked
from castleguard.judge.reading.values import Codes, refine
from castleguard.judge.report.findings import Finding, Section, finding, none_of
from castleguard.judge.verify import structure as exact
from castleguard.judge.verify.group_values import value_codes
from castleguard.judge.verify.leaks import find_leaks
from castleguard.judge.verify.odd_spelling import odd_spellings
from castleguard.judge.verify.release_times import late_rows
from castleguard.schema.roles import Numeric

_PERSONS = "Does every group have k persons?"
_IDENTIFIERS = "Is the file free of identifiers?"
_ORIGINS = "Does every row come from the original?"
_VALUES = "Do columns that are published unchanged match the original?"
_ONCE = "Was every row published at most once?"


def structure_section(material: Material) -> Section:
    """Section on the promise, checked by counting."""
    return Section(
        id="structure",
        title="Is the promise kept?",
        about="These checks compare the published file with the original and count everything again, independently of "
        "the program that made the file. With a column that links the rows of both files, the counts are exact; "
        "without one, a broken promise can be found, but a kept promise cannot be proved.",
        findings=tuple(_findings(material)),
    )


def _findings(material: Material) -> Iterator[Finding]:
    yield from _columns(material)
    yield from _readable(material)
    if material.promised.hides_values:
        yield labels_finding(material)
    if material.kind == "points":
        yield from mean_findings(material)
        return
    if material.linked is not None:
        yield from _linked_rows(material, material.linked)
    else:
        yield from _unlinked_rows(material)
    yield _persons(material)
    yield from distribution_findings(material)
    yield _containment(material)
    yield none_of(
        "domain",
        "Do ranges lie in the public domain?",
        exact.bounds_outside_domain(material.sides),
        good="Every published range lies inside the domain that the schema declares.",
        bad="Published ranges that reach outside the domain that the schema declares, or end before they begin",
    )
    yield _grid(material)
    yield _cells(material)
    yield _delay(material)


def _columns(material: Material) -> Iterator[Finding]:
    """Check for undeclared columns and identifiers. Column names are not values and may be shown."""
    leaks = find_leaks(material.published, material.original, material.schema, row=material.row, link=material.link)
    yield none_of(
        "undeclared-columns",
        "Are all published columns declared?",
        len(leaks.undeclared),
        good="Every published column is declared in the schema.",
        bad="Published columns that the schema does not declare",
        remark=f"They are: {', '.join(leaks.undeclared)}.",
    )
    if material.schema.person is None:
        yield finding(
            "identifiers",
            _IDENTIFIERS,
            "not checked",
            "The schema does not declare a person column with identifiers.",
        )
    else:
        yield none_of(
            "identifiers",
            _IDENTIFIERS,
            len(leaks.identifiers),
            good="No published column holds the identifiers of persons.",
            bad="Published columns that hold the identifiers of persons",
            remark=f"They are: {', '.join(leaks.identifiers)}.",
        )
    if leaks.pseudonyms:
        yield finding(
            "pseudonyms",
            "Can persons be tracked by a column?",
            "warning",
            f"These columns have one value per person and one person per value, so readers of the file can track "
            f"persons by them: {', '.join(leaks.pseudonyms)}.",
            wrong=len(leaks.pseudonyms),
        )
    if material.link is not None:
        yield finding(
            "link-column",
            "Is the row number published?",
            "warning",
            f"Column {material.link!r} numbers the original rows. It is needed for this audit, but remove it before "
            f"the file is passed on: anyone with the original can find every row by it.",
        )


def _readable(material: Material) -> Iterator[Finding]:
    """Check for unread content and for several spellings of one value, which could carry any information."""
    yield none_of(
        "unread-lines",
        "Is every line a row?",
        material.unread_lines,
        good="Every line of the published file is a row.",
        bad="Lines of the published file that are not rows",
        remark="Their content was not checked, and readers of the file can see it.",
    )
    if material.unread_files:
        yield finding(
            "unread-files",
            "Was every file checked?",
            "warning",
            f"Files in the published folder that are not parts: {material.unread_files:,}. They were not checked; "
            f"remove them before the folder is passed on.",
            wrong=material.unread_files,
        )
    wrong, columns = odd_spellings(material.published, material.schema)
    yield none_of(
        "spelling",
        "Are equal bounds and labels spelled the same way?",
        wrong,
        good="Equal bounds and labels are spelled the same way in all rows.",
        bad=f"Rows that spell a bound or label differently from other rows with the same one, in {', '.join(columns)}",
        remark="Readers of the text can distinguish these rows.",
    )


def _linked_rows(material: Material, linked: Linked) -> Iterator[Finding]:
    foreign, repeated = exact.wrong_rows(linked).values()
    yield none_of(
        "origins",
        _ORIGINS,
        foreign,
        good="Every published row is in the original.",
        bad="Published rows that are not in the original",
    )
    yield none_of(
        "repeated-rows",
        _ONCE,
        repeated,
        good="No row was published twice.",
        bad="Repeated publications of a row",
    )
    yield none_of(
        "refused-rows",
        "Were all rows left out that the schema rejects?",
        int(np.count_nonzero(~material.accepted[linked.row[linked.known]])),
        good="No published row is one that the schema rejects.",
        bad="Published rows that the schema rejects",
    )
    columns = set(material.kept_columns) - {material.link}
    if not columns:
        yield finding("kept-values", _VALUES, "not checked", "No column is published unchanged.")
        return
    yield none_of(
        "kept-values",
        _VALUES,
        exact.changed_values(material.published, material.original, linked.row, columns),
        good=f"All values of {_listed(columns)} equal those of the original rows.",
        bad=f"Values of {_listed(columns)} that differ from the original row",
    )


def _unlinked_rows(material: Material) -> Iterator[Finding]:
    columns = material.kept_columns
    of = f"No combination of values of {_listed(columns)} occurs" if columns else "Rows do not occur"
    yield none_of(
        "kept-values",
        _VALUES,
        material.kept.too_many,
        good=f"{of} more often than in the original. Without a link column, values swapped between rows are not "
        f"detected.",
        bad="Published rows in excess of the original rows with the same unchanged values",
        remark="A value was changed, or a row was published twice.",
    )


def _listed(columns: Collection[str]) -> str:
    return ", ".join(sorted(columns))


def _persons(material: Material) -> Finding:
    k = material.policy.k
    assert k is not None
    if material.promised.form == "cells":
        return _equal_rows(material, k)
    rows = np.bincount(material.groups, minlength=material.group_count)
    if material.linked is not None:
        persons = material.linked.persons_per_group
        return none_of(
            "fewest-persons",
            _PERSONS,
            int(np.count_nonzero(persons < k)),
            good=f"Each of {persons.size:,} groups has at least {k} different persons.",
            bad=f"Groups with fewer than {k} different persons",
            groups=int(persons.size),
            asked=k,
            fewest=int(persons.min()) if persons.size else None,
        )
    most, checked = rows, f"{rows.size:,} groups"
    if material.kind == "true boxes":
        bounded = material.bounded
        most = np.minimum(rows[bounded.groups], bounded.most_persons)
        checked = f"{most.size:,} of {rows.size:,} groups" if bounded.sampled else checked
    few = int(np.count_nonzero(most < k))
    figures = {"groups": int(most.size), "asked": k, "at most": int(most.min()) if most.size else None, "wrong": few}
    if few:
        text = f"Groups that cannot have {k} different persons, for any choice of original rows: {few:,}."
        return Finding(id="fewest-persons", title=_PERSONS, status="failed", sentence=text, figures=figures)
    text = (
        f"Not refuted in {checked}: each has enough rows and enough matching original rows. Proving that each has "
        f"{k} persons needs a link column."
    )
    return Finding(id="fewest-persons", title=_PERSONS, status="not checked", sentence=text, figures=figures)


def _equal_rows(material: Material, k: int) -> Finding:
    """Check for k equal rows. SDGS promises them within a window, so all windows together have at least as many."""
    cells: Codes = material.groups.astype(np.int64)
    for role in material.schema.sensitive:
        cells = refine(cells, value_codes(material.published.column(role.name), role))
    rows = np.bincount(cells) if cells.size else np.zeros(0, np.int64)
    return none_of(
        "fewest-persons",
        "Is every row equal to k - 1 others?",
        int(np.count_nonzero(rows < k)),
        good=f"Each combination of box and sensitive values has at least {k} rows. Whether they were in one window is "
        f"not checked, because a file does not show windows.",
        bad=f"Combinations of box and sensitive values with fewer than {k} rows",
        groups=int(rows.size),
        asked=k,
        fewest=int(rows.min()) if rows.size else None,
    )


def _containment(material: Material) -> Finding:
    if material.kind == "noisy boxes":
        return finding(
            "containment",
            INSIDE,
            "not checked",
            "Ranges hold randomised values, so a true value may lie outside by design.",
        )
    if material.linked is not None:
        return none_of(
            "containment",
            INSIDE,
            int(np.count_nonzero(exact.outside(material.linked))),
            good="Every value lies inside the range or below the node published for its row.",
            bad="Values outside the range or node published for their row",
        )
    bounded = material.bounded
    sample = f"{bounded.groups.size:,} of {bounded.all_groups:,} groups were checked." if bounded.sampled else ""
    return none_of(
        "containment",
        INSIDE,
        int(bounded.impossible.sum()),
        good=f"Every published row matches an original row. {sample}".strip(),
        bad="Published rows that match no remaining original row",
        remark=sample,
    )


def _grid(material: Material) -> Finding:
    title = "Are the bounds of ranges on the public grid?"
    if not material.policy.strict:
        return finding(
            "exact-bounds", title, "not checked", "Paper mode publishes the smallest and largest value of a group."
        )
    wrong, columns = exact.bounds_off_grid(material.sides, material.schema)
    if not wrong and exact.boxes_without_width(material.sides):
        return none_of(
            "exact-bounds",
            title,
            exact.boxes_without_width(material.sides),
            good="",
            bad="Published ranges with two equal bounds, which are the value itself",
        )
    return none_of(
        "exact-bounds",
        title,
        wrong,
        good="Every published range consists of whole cells of the public grid.",
        bad=f"Published bounds that are not edges of the public grid, in {', '.join(columns)}",
        remark="Such bounds are exact values of the data.",
    )


def _cells(material: Material) -> Finding:
    title = "Does every cell of the grid hold several values?"
    if not material.policy.strict or material.kind != "true boxes":
        return finding("single-values", title, "not checked", "The ranges do not consist of cells of true values.")
    pairs = zip(material.schema.quasi_identifiers, material.originals.values, strict=True)
    columns = [role.name for role, values in pairs if isinstance(role, Numeric) and role.hides_nothing(values)]
    if not columns:
        return finding("single-values", title, "passed", "No range of one cell reveals a value.", columns=0)
    return finding(
        "single-values",
        title,
        "warning",
        f"Cells of {', '.join(columns)} hold a single value of the data, so a range of one cell reveals it. Use a "
        f"larger step.",
        columns=len(columns),
    )


def _delay(material: Material) -> Finding:
    reason = _why_no_delay(material)
    if reason is not None:
        return finding("delay", DELAY, "not checked", reason)
    delay = material.promised.delay
    assert delay is not None
    assert material.linked is not None
    position = material.position[material.linked.row[material.linked.known]]
    return none_of(
        "delay",
        DELAY,
        late_rows(position[position >= 0], delay),
        good=f"No row was published after one that arrived more than {delay:,} rows later. Late rows without such a "
        f"witness are not detected.",
        bad=f"Late rows, which were published after a row that arrived more than {delay:,} rows later",
        asked=delay,
    )


def _why_no_delay(material: Material) -> str | None:
    if material.promised.delay is None:
        return material.promised.why_no_delay
    if material.linked is None:
        return "The order of arrival is unknown without a link column."
    return None
