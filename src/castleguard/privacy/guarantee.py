"""The privacy statement as a value: what is promised, to whom it applies, and what is not promised."""

import textwrap
from dataclasses import dataclass

from castleguard.privacy.parameters import rounded_up

SYSTEM = "ChaCha20, keyed by the operating system"
SEED = "a seed, so that every draw can be repeated"
_WIDTH = 100  # characters of a line


@dataclass(frozen=True, kw_only=True)
class DifferentialPrivacy:
    """A claim of differential privacy, whole: a number without its unit, neighbours and horizon says nothing."""

    epsilon: float
    dp_delta: float
    unit: str
    """What one person can hide in: "one row", "all rows of one person in one window"."""
    neighbours: str
    """What an observer cannot tell apart: "with and without it", "its values replaced by any others"."""
    horizon: str
    """For how long the numbers hold before they add up: "the whole stream", "any 3600 seconds"."""
    covered: tuple[str, ...]
    """The columns that the claim speaks of."""
    uncovered: tuple[str, ...] = ()
    """What is published, or shows, outside the claim."""
    randomness: str = SYSTEM

    @property
    def void(self) -> bool:
        """Whether the claim does not hold, because the draws can be repeated."""
        return self.randomness == SEED

    @property
    def sentence(self) -> str:
        """The claim in words."""
        loss = f"({rounded_up(self.epsilon)}, {rounded_up(self.dp_delta, 3)})"
        parts = [
            f"{loss}-differential privacy of {self.unit}, {self.neighbours}, "
            f"over {self.horizon}, for {', '.join(self.covered)}."
        ]
        if self.uncovered:
            parts.append(f"Outside this claim: {', '.join(self.uncovered)}.")
        if self.void:
            parts.append(f"VOID: the randomness came from {self.randomness}.")
        else:
            parts.append(f"Randomness: {self.randomness}.")
        return " ".join(parts)


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """What a policy promises for a schema. `str()` is the whole statement."""

    promise: str
    """What holds for everything that is published."""
    limits: tuple[str, ...] = ()
    """What is not promised, a sentence each."""
    k: int | None = None
    l: int | None = None
    delay: int | None = None
    max_wait: float | None = None
    privacy: DifferentialPrivacy | None = None
    """The claim of differential privacy; None: there is none."""

    @property
    def sentence(self) -> str:
        """The statement in words."""
        claim = () if self.privacy is None else (self.privacy.sentence,)
        return " ".join((self.promise, *claim, *self.limits))

    def paragraphs(self) -> str:
        """The promise, the claim of differential privacy, and the limits: a wrapped paragraph each."""
        claim = "" if self.privacy is None else self.privacy.sentence
        texts = (self.promise, claim, " ".join(self.limits))
        return "\n".join("\n".join(textwrap.wrap(text, _WIDTH)) for text in texts if text)

    def __str__(self) -> str:
        return self.sentence
