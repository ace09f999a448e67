"""What never prints: texts that came from the environment, and values whose key says that they are secret."""

HIDDEN = "****"
SECRET_ENDINGS = ("password", "secret", "token", "key")


class FromEnvironment(str):
    """A text that came from the environment: a text like any other, but for its repr."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Never what it says."""
        return repr(HIDDEN)


def is_secret(key: object) -> bool:
    """Whether a key by its name holds a secret.

    >>> [is_secret(key) for key in ("sasl_password", "key", "path")]
    [True, True, False]
    """
    return isinstance(key, str) and key.lower().endswith(SECRET_ENDINGS)


def holds_secret(key: object, value: object) -> bool:
    """Whether a value must not be shown: by its key, or because some of it came from the environment."""
    if isinstance(value, dict):
        return is_secret(key) or any(holds_secret(inner, below) for inner, below in value.items())
    if isinstance(value, list):
        return is_secret(key) or any(holds_secret(None, below) for below in value)
    return is_secret(key) or isinstance(value, FromEnvironment)
