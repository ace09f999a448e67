"""Values that are never printed: those from the environment, and those whose key names a secret."""

HIDDEN = "****"
SECRET_ENDINGS = ("password", "secret", "token", "key")


class FromEnvironment(str):
    """A text from the environment, with a repr that hides it."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Hide the text."""
        return repr(HIDDEN)


def is_secret(key: object) -> bool:
    """Whether a key names a secret.

    >>> [is_secret(key) for key in ("sasl_password", "key", "path")]
    [True, True, False]
    """
    return isinstance(key, str) and key.lower().endswith(SECRET_ENDINGS)


def holds_secret(key: object, value: object) -> bool:
    """Whether a value must not be shown, because of its key or because part of it comes from the environment."""
    if isinstance(value, dict):
        return is_secret(key) or any(holds_secret(inner, below) for inner, below in value.items())
    if isinstance(value, list):
        return is_secret(key) or any(holds_secret(None, below) for below in value)
    return is_secret(key) or isinstance(value, FromEnvironment)
