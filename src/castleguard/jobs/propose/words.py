"""The words of a column name, and sets of words."""

import re


def words_of(name: str) -> list[str]:
    """The words of a column name, in lower case.

    >>> words_of("PatientID"), words_of("pickup_zone-id"), words_of("homeZIP")
    (['patient', 'id'], ['pickup', 'zone', 'id'], ['home', 'zip'])
    """
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_A-Za-z]+", name)]


def word_set(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())
