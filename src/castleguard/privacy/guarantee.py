"""The privacy statement as a value: what is promised, to whom it applies, and what is not promised."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """What a policy promises for a schema. `str()` is the whole statement."""

    promise: str
    """One sentence: what holds for everything that is published."""
    limits: tuple[str, ...] = ()
    """What is not promised, a sentence each."""
    k: int | None = None
    l: int | None = None
    delay: int | None = None
    max_wait: float | None = None

    @property
    def sentence(self) -> str:
        """The statement in words."""
        return " ".join((self.promise, *self.limits))

    def __str__(self) -> str:
        return self.sentence
