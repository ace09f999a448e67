"""One-line errors for arguments of the wrong kind: swapped, or a class in place of an instance.

Public constructors ask here first, so that a mistake is named where it was made and not three calls further down.
"""


def kind_of(value: object) -> str:
    """What an argument is, in words, without its content.

    >>> kind_of(3), kind_of(int)
    ('int', 'the class int (make one: int(...))')
    """
    if isinstance(value, type):
        return f"the class {value.__name__} (make one: {value.__name__}(...))"
    return type(value).__name__
