"""The privacy statement as a value: the promise, its scope and its limits."""

import textwrap
from dataclasses import dataclass

from castleguard.privacy.parameters import rounded_up

SYSTEM = "ChaCha20, keyed by the operating system"
SEED = "a seed, so that every draw can be repeated"
_WIDTH = 100  # characters of a line


@dataclass(frozen=True, kw_only=True)
class DifferentialPrivacy:
    """A complete claim of differential privacy: an epsilon means nothing without unit, neighbours and horizon.

    Checkpoints store claims and compare them by equality (`runtime/epochs.py`): rewording a text makes a new claim.
    """

    epsilon: float
    dp_delta: float
    unit: str
    """Unit of protection: "one row", "all rows of one person in one window"."""
    neighbours: str
    """Neighbouring inputs, which an observer cannot tell apart: "with and without it"."""
    horizon: str
    """Period for which epsilon and delta hold before they add up: "the whole stream", "any 3600 seconds"."""
    covered: tuple[str, ...]
    """Columns that the claim covers."""
    uncovered: tuple[str, ...] = ()
    """Columns and facts that are published or visible outside the claim."""
    randomness: str = SYSTEM

    @property
    def void(self) -> bool:
        """Whether the claim does not hold because the draws can be repeated."""
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
    """Promise of a policy for a schema. `str()` is the whole statement."""

    promise: str
    """Promise for everything that is published."""
    limits: tuple[str, ...] = ()
    """Limits of the promise, a sentence each."""
    k: int | None = None
    l: int | None = None
    delay: int | None = None
    max_wait: float | None = None
    privacy: DifferentialPrivacy | None = None
    """Claim of differential privacy, if any."""

    @property
    def sentence(self) -> str:
        """The statement in words."""
        claim = () if self.privacy is None else (self.privacy.sentence,)
        return " ".join((self.promise, *claim, *self.limits))

    def paragraphs(self) -> str:
        """Promise, claim of differential privacy and limits, a wrapped paragraph each."""
        claim = "" if self.privacy is None else self.privacy.sentence
        texts = (self.promise, claim, " ".join(self.limits))
        return "\n".join("\n".join(textwrap.wrap(text, _WIDTH)) for text in texts if text)

    def __str__(self) -> str:
        return self.sentence
