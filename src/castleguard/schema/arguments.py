"""Words for arguments of the wrong kind, for one-line errors of public constructors."""


def kind_of(value: object) -> str:
    """Kind of an argument in words, without its content.

    >>> kind_of(3), kind_of(int)
    ('int', 'the class int (make one: int(...))')
    """
    if isinstance(value, type):
        return f"the class {value.__name__} (make one: {value.__name__}(...))"
    return type(value).__name__
