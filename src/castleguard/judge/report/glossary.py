"""Glossary of the reports, for readers who are not engineers."""

from typing import NamedTuple


class Term(NamedTuple):
    """A term and its meaning."""

    word: str
    meaning: str


OF_PUBLICATIONS = (
    Term("Person", "The individual described by a row. All rows with the same identity count as one person."),
    Term(
        "Quasi-identifier",
        "A value that does not name a person but may be known to others: age, district, the time of a visit.",
    ),
    Term("Sensitive value", "A value that must stay secret: a diagnosis, an amount."),
    Term("Group", "All published rows with the same published quasi-identifiers."),
    Term(
        "k-anonymity",
        "Every group has rows of at least k different persons, so quasi-identifiers cannot distinguish a person from "
        "k - 1 others.",
    ),
    Term(
        "l-diversity",
        "Every group has at least l different sensitive values, so being in a group does not reveal the value.",
    ),
    Term(
        "t-closeness",
        "The sensitive values of every group are distributed nearly as in all rows; t bounds the difference.",
    ),
    Term(
        "Link column",
        "A column of both files that numbers the original rows, for the audit only.",
    ),
    Term(
        "Prosecutor risk",
        "The probability that an attacker who knows that a person is in the data identifies them: one divided by the "
        "number of persons in the group.",
    ),
    Term(
        "Journalist risk",
        "The same for an attacker who does not know whether the person is in the data: the candidates are all persons "
        "of the population who match, not only those in the data.",
    ),
    Term("Marketer risk", "The share of all persons that an attacker identifies on average by guessing for everyone."),
    Term(
        "Longitudinal set",
        "The candidates left for a person after combining all of their rows over time. k-anonymity of single groups "
        "does not limit how small it can be.",
    ),
    Term("Release", "Rows that are published together, at one time."),
    Term(
        "Observer who knows when",
        "Someone who knows when every row arrived and when it was released. For this observer, a row hides only among "
        "the rows of its group in its own release.",
    ),
    Term("Information loss", "The detail given up: 0 for exact values, 1 (or 100 %) if the whole domain is published."),
    Term(
        "Epsilon",
        "The limit of differential privacy on how much the presence or the values of one row may change the output. "
        "0 is perfect; at 1, an outcome may be 2.7 times as likely, at 5, 148 times.",
    ),
)
OF_GAMES = (
    Term(
        "Differential privacy",
        "A limit on how much the output may depend on one row or one person, so that the output reveals little about "
        "whether the row was in the input, or about its values.",
    ),
    OF_PUBLICATIONS[-1],
    Term(
        "Delta", "The probability with which the limit of epsilon may fail. A good delta is far below 1 in a thousand."
    ),
    Term("Neighbours", "Two streams that differ in one row or one person, and that the output must not distinguish."),
    Term("Canary", "A conspicuous row that is put into the stream to test whether the output reveals it."),
    Term("Event", "A property of the output that occurs more often for one stream than for the other."),
    Term("Refuted", "Shown to be false, at the stated confidence (at 95 %, the test errs in at most 5 % of cases)."),
    Term("Not refuted", "No contradicting evidence was found. This is not a proof."),
    Term("Ceiling", "The largest epsilon that this number of runs could have shown, even if the true one is infinite."),
)
