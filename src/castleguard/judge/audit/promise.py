"""The section on the promise itself: groups, ranges, rows, values, the delay."""

from collections.abc import Collection, Iterator

import numpy as np

from castleguard.judge.audit.distribution import distribution_findings
from castleguard.judge.audit.material import Material
from castleguard.judge.audit.means import labels_finding, mean_findings
from castleguard.judge.reading.linked import Linked
from castleguard.judge.reading.values import Codes, refine
from castleguard.judge.report.findings import Finding, Section, finding, none_of
from castleguard.judge.verify import structure as exact
from castleguard.judge.verify.group_values import value_codes
from castleguard.judge.verify.leaks import find_leaks
from castleguard.judge.verify.moments import late_rows
from castleguard.judge.verify.spelling import odd_spellings
from castleguard.schema.roles import Numeric

_PERSONS = "Does every group have k persons?"
_INSIDE = "Do rows lie inside what was published for them?"
_ORIGINS = "Does every row come from the original?"
_VALUES = "Are kept values unchanged?"
_DELAY = "Did rows leave in time?"
_ONCE = "Was no row published twice?"


def structure_section(material: Material) -> Section:
    """Is the promise kept? Counted in the file itself."""
    return Section(
        id="structure",
        title="Is the promise kept?",
        about="Whoever promises groups of k persons can be held to it: the published file is put beside the original "
        "one, and everything is counted anew. Nothing here knows how the file was made. With a column that links the "
        "rows of both files the counts are exact; without one a broken promise can be found, but a kept one not "
        "proved.",
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
        bad="published ranges reach outside the domain that the schema declares, or end before they begin.",
    )
    yield _grid(material)
    yield _cells(material)
    yield _delay(material)


def _columns(material: Material) -> Iterator[Finding]:
    """Which columns were published: none that was not declared, none that names a person.

    Names of columns are not values, and may be shown.
    """
    leaks = find_leaks(material.published, material.original, material.schema, row=material.row, link=material.link)
    yield none_of(
        "undeclared-columns",
        "Are all published columns declared?",
        len(leaks.undeclared),
        good="Every published column is declared in the schema.",
        bad=f"published columns are not declared in the schema: {', '.join(leaks.undeclared)}.",
    )
    if material.schema.person is None:
        yield finding(
            "identifiers",
            "Is nobody named?",
            "not checked",
            "The schema has no person column, so that there are no identifiers to look for.",
        )
    else:
        yield none_of(
            "identifiers",
            "Is nobody named?",
            len(leaks.identifiers),
            good="No published column holds the identifiers of persons.",
            bad=f"published columns hold the identifiers of persons: {', '.join(leaks.identifiers)}.",
        )
    if leaks.pseudonyms:
        yield finding(
            "pseudonyms",
            "Can persons be followed by a column?",
            "warning",
            f"These columns have one value for each person and one person for each value, so that whoever reads the "
            f"file can follow persons by them: {', '.join(leaks.pseudonyms)}.",
            wrong=len(leaks.pseudonyms),
        )
    if material.link is not None:
        yield finding(
            "link-column",
            "Is the row number published?",
            "warning",
            f"The column {material.link} numbers the original rows. It served to check the file, and must not be in "
            f"what others get: whoever holds the original finds every row by it.",
        )


def _readable(material: Material) -> Iterator[Finding]:
    """What a file has besides rows, and rows that say the same in other words, can say anything."""
    yield none_of(
        "unread-lines",
        "Is every line a row?",
        material.unread_lines,
        good="Every line of the published file is a row.",
        bad="lines of the published file are no rows. What they hold was not looked at, and others can read it.",
    )
    if material.unread_files:
        yield finding(
            "unread-files",
            "Was every file looked at?",
            "warning",
            f"{material.unread_files:,} files in the published folder are no parts of it, and were not looked at. They "
            f"should not be there when others get it.",
            wrong=material.unread_files,
        )
    wrong, columns = odd_spellings(material.published, material.schema)
    yield none_of(
        "spelling",
        "Is everything written in one way?",
        wrong,
        good="Equal bounds and labels are written alike in all rows.",
        bad=f"rows are written otherwise than others with the same bounds or labels, in {', '.join(columns)}: whoever "
        f"reads the text can tell them apart.",
    )


def _linked_rows(material: Material, linked: Linked) -> Iterator[Finding]:
    foreign, repeated = exact.wrong_rows(linked).values()
    yield none_of(
        "origins",
        _ORIGINS,
        foreign,
        good="Every published row is one of the original.",
        bad="published rows are not in the original.",
    )
    yield none_of(
        "repeated-rows",
        _ONCE,
        repeated,
        good="No row was published twice.",
        bad="rows were published more than once.",
    )
    yield none_of(
        "refused-rows",
        "Was nothing published that had to be refused?",
        int(np.count_nonzero(~material.accepted[linked.row[linked.known]])),
        good="No row was published that the schema says to refuse.",
        bad="rows were published that the schema says to refuse.",
    )
    columns = set(material.kept_columns) - {material.link}
    if not columns:
        yield finding("kept-values", _VALUES, "not checked", "No column is published as it came.")
        return
    yield none_of(
        "kept-values",
        _VALUES,
        exact.changed_values(material.published, material.original, linked.row, columns),
        good=f"The values of {_listed(columns)} are those of the original rows.",
        bad=f"values of {_listed(columns)} are not those of the original rows.",
    )


def _unlinked_rows(material: Material) -> Iterator[Finding]:
    columns = material.kept_columns
    of = f"No combination of values of {_listed(columns)} occurs" if columns else "Rows do not occur"
    yield none_of(
        "kept-values",
        _VALUES,
        material.kept.too_many,
        good=f"{of} more often than in the original. Without a link, values exchanged between rows would not be seen.",
        bad="published rows have a combination of kept values that no original row is left for: a value changed, or a "
        "row came out twice.",
    )


def _listed(columns: Collection[str]) -> str:
    return ", ".join(sorted(columns))


def _persons(material: Material) -> Finding:
    k = material.policy.k
    assert k is not None
    if material.promised.form == "cells":
        return _alike(material, k)
    rows = np.bincount(material.groups, minlength=material.group_count)
    if material.linked is not None:
        persons = material.linked.persons_per_group
        return none_of(
            "fewest-persons",
            _PERSONS,
            int(np.count_nonzero(persons < k)),
            good=f"Each of {persons.size:,} groups has at least {k} different persons.",
            bad=f"groups have fewer than {k} different persons.",
            groups=int(persons.size),
            asked=k,
            fewest=int(persons.min()) if persons.size else None,
        )
    most, looked_at = rows, f"{rows.size:,} groups"
    if material.kind == "true boxes":
        bounded = material.bounded
        most = np.minimum(rows[bounded.groups], bounded.most_persons)
        looked_at = f"{most.size:,} of {rows.size:,} groups" if bounded.sampled else looked_at
    few = int(np.count_nonzero(most < k))
    figures = {"groups": int(most.size), "asked": k, "at most": int(most.min()) if most.size else None, "wrong": few}
    if few:
        text = f"{few:,} groups cannot have {k} different persons, whichever rows they were made from."
        return Finding(id="fewest-persons", title=_PERSONS, status="failed", sentence=text, figures=figures)
    text = (
        f"Not refuted in {looked_at}: each has rows enough, and originals enough that they can have been made from. "
        f"That each has {k} persons can only be proved with a column that links the rows."
    )
    return Finding(id="fewest-persons", title=_PERSONS, status="not checked", sentence=text, figures=figures)


def _alike(material: Material, k: int) -> Finding:
    """SDGS promises k rows of a window with the same box and values: in all windows together there are no fewer."""
    cells: Codes = material.groups.astype(np.int64)
    for role in material.schema.sensitive:
        cells = refine(cells, value_codes(material.published.column(role.name), role))
    rows = np.bincount(cells) if cells.size else np.zeros(0, np.int64)
    return none_of(
        "fewest-persons",
        "Does every row have k - 1 others like it?",
        int(np.count_nonzero(rows < k)),
        good=f"At least {k} rows have each combination of box and sensitive values. A file does not tell "
        f"windows, so that they were all in one is not checked.",
        bad=f"combinations of box and sensitive values have fewer than {k} rows.",
        groups=int(rows.size),
        asked=k,
        fewest=int(rows.min()) if rows.size else None,
    )


def _containment(material: Material) -> Finding:
    if material.kind == "noisy boxes":
        return finding(
            "containment",
            _INSIDE,
            "not checked",
            "Ranges hold randomised values: a true value may lie outside on purpose.",
        )
    if material.linked is not None:
        return none_of(
            "containment",
            _INSIDE,
            int(np.count_nonzero(exact.outside(material.linked))),
            good="Every value lies inside the range or below the node that was published for its row.",
            bad="values lie outside what was published for their row.",
        )
    bounded = material.bounded
    looked = f" Looked at: {bounded.groups.size:,} of {bounded.all_groups:,} groups." if bounded.sampled else ""
    return none_of(
        "containment",
        _INSIDE,
        int(bounded.impossible.sum()),
        good=f"For every published row there is an original one that it can have been made from.{looked}",
        bad=f"published rows cannot have been made from any original row that is left for them.{looked}",
    )


def _grid(material: Material) -> Finding:
    title = "Do ranges hide the values at their ends?"
    if not material.policy.strict:
        return finding(
            "exact-bounds", title, "not checked", "Paper mode publishes the smallest and the largest value themselves."
        )
    wrong, columns = exact.bounds_off_grid(material.sides, material.schema)
    if not wrong and exact.boxes_without_width(material.sides):
        return none_of(
            "exact-bounds",
            title,
            exact.boxes_without_width(material.sides),
            good="",
            bad="published ranges have two equal bounds, which are the value itself.",
        )
    return none_of(
        "exact-bounds",
        title,
        wrong,
        good="Every published range is made of whole cells of the public grid.",
        bad=f"published bounds are exact: they lie on no edge of the public grid, in {', '.join(columns)}.",
    )


def _cells(material: Material) -> Finding:
    title = "Does every cell of the grid hold several values?"
    if not material.policy.strict or material.kind != "true boxes":
        return finding("single-values", title, "not checked", "The ranges are not made of the cells of true values.")
    pairs = zip(material.schema.quasi_identifiers, material.originals.values, strict=True)
    columns = [role.name for role, values in pairs if isinstance(role, Numeric) and role.hides_nothing(values)]
    if not columns:
        return finding("single-values", title, "passed", "No range of one cell tells a value.", columns=0)
    return finding(
        "single-values",
        title,
        "warning",
        f"A cell of {', '.join(columns)} holds a single value of the data, so that a range of one cell tells it: give "
        f"a larger step.",
        columns=len(columns),
    )


def _delay(material: Material) -> Finding:
    reason = _why_no_delay(material)
    if reason is not None:
        return finding("delay", _DELAY, "not checked", reason)
    delay = material.promised.delay
    assert delay is not None
    assert material.linked is not None
    position = material.position[material.linked.row[material.linked.known]]
    return none_of(
        "delay",
        _DELAY,
        late_rows(position[position >= 0], delay),
        good=f"No row came out after one that arrived more than {delay:,} rows later. A row that was late without such "
        f"a witness would not be seen.",
        bad=f"rows left late: they came out after a row that arrived more than {delay:,} rows later.",
        asked=delay,
    )


def _why_no_delay(material: Material) -> str | None:
    if material.promised.delay is None:
        return material.promised.why_no_delay
    if material.linked is None:
        return "Without a column that links the rows nobody knows in which order they arrived."
    return None
