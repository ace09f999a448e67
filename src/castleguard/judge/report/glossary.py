"""The words of a report, explained for readers who are no engineers."""

from typing import NamedTuple


class Term(NamedTuple):
    """A word, and what it means."""

    word: str
    meaning: str


OF_PUBLICATIONS = (
    Term("Person", "Whoever the rows are about: all rows with the same identity count as one person."),
    Term(
        "Quasi-identifier",
        "What does not name a person, but could be known to somebody else: age, district, the time of a visit.",
    ),
    Term("Sensitive value", "What nobody should learn about a person: a diagnosis, an amount."),
    Term("Group", "All published rows whose quasi-identifiers look the same."),
    Term(
        "k-anonymity",
        "Every group has rows of at least k different persons, so that nobody can be told from k - 1 others by them.",
    ),
    Term(
        "l-diversity",
        "Every group has at least l different sensitive values, so that being in a group does not tell the value.",
    ),
    Term(
        "t-closeness",
        "The sensitive values of every group are distributed nearly as in all rows: t bounds how far they may differ.",
    ),
    Term(
        "Prosecutor risk",
        "How likely somebody who knows that a certain person is in the data picks the right row: one in so many "
        "persons of the group.",
    ),
    Term(
        "Journalist risk",
        "The same for somebody who does not know whether the person is in the data: the candidates are all people who "
        "fit, not only those in the data.",
    ),
    Term("Marketer risk", "The share of all persons that is found on average by somebody who guesses for everybody."),
    Term(
        "Longitudinal set",
        "The candidates that are left for a person when all of their rows over time are put together. k-anonymity of "
        "every single group does not bound it.",
    ),
    Term("Release", "Rows that leave together, at one moment."),
    Term(
        "Observer who knows when",
        "Someone who knows when every row arrived and when rows were released. To them a row hides only among the rows "
        "of its group in its own release.",
    ),
    Term("Information loss", "How much detail was given up: 0 as it came, 1 (or 100 %) when nothing is said."),
    Term(
        "Epsilon",
        "Of differential privacy: how much the presence or the values of one row may change what is published. 0 is "
        "perfect; at 1 an outcome may be 2.7 times as likely, at 5 already 148 times.",
    ),
)
OF_GAMES = (
    Term(
        "Differential privacy",
        "A limit on how much the output may depend on one row, or on one person: whoever sees it can hardly tell "
        "whether that row was there, or what it said.",
    ),
    OF_PUBLICATIONS[-1],
    Term(
        "Delta", "The probability with which the limit of epsilon may fail. A good delta is far below 1 in a thousand."
    ),
    Term("Neighbours", "Two streams that are the same but for one row or one person: what cannot be told apart."),
    Term("Canary", "A conspicuous row that is put into the stream to see whether it can be noticed in the output."),
    Term("Event", "Something that can be read off the output, and happens more often on one stream than on the other."),
    Term("Refuted", "Shown to be false, but for the stated probability of bad luck (5 % at a confidence of 95 %)."),
    Term("Not refuted", "Nothing was found that contradicts it. This is no proof."),
    Term("Ceiling", "The largest epsilon that this many runs could have proved, even if the truth is infinite."),
)
