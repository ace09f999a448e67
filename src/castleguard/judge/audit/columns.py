"""Which columns were published: none that was not declared, none that names a person."""

from collections.abc import Iterator

from castleguard.judge.audit.material import Material
from castleguard.judge.report.findings import Finding, finding, none_of
from castleguard.judge.verify.leaks import find_leaks


def column_findings(material: Material) -> Iterator[Finding]:
    """Names of columns are no values, and may be told."""
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
