"""Who a site is among the sites of a job, and what they share."""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from castleguard.errors import PolicyError


@dataclass(frozen=True, kw_only=True)
class Membership:
    """One of several sites."""

    name: str
    sites: tuple[str, ...]
    """All of them, this one too."""
    key: bytes = field(repr=False)
    """Shared by all sites, unknown to the relay: it hashes persons so that they can be compared, and seals messages."""
    epoch: str
    """Grows, as text, with every start of the site: what it said in an earlier one is void."""

    def __post_init__(self) -> None:
        if len(set(self.sites)) != len(self.sites):
            raise PolicyError("two sites have the same name")
        if self.name not in self.sites:
            raise PolicyError(f"{self.name!r} is none of the sites {', '.join(self.sites)}")

    @property
    def others(self) -> tuple[str, ...]:
        """The other sites."""
        return tuple(name for name in self.sites if name != self.name)

    @property
    def number(self) -> int:
        """Its place among the sites, whoever lists them in which order."""
        return sorted(self.sites).index(self.name)

    def token_key(self) -> NDArray[np.uint64]:
        """(2,) the key of persons' hashes."""
        digest = hashlib.blake2b(self.key, digest_size=16, person=b"castleguard pids").digest()
        return np.frombuffer(digest, dtype="<u8").astype(np.uint64)

    def agreement(self, identity: dict[str, Any]) -> str:
        """Short for what all sites must have in common: schema and policy as JSON has them, the sites, and the key.

        A box means the same everywhere, and is as safe as promised, only among sites for which this is the same.
        """
        described = json.dumps([identity, sorted(self.sites)], sort_keys=True).encode()
        return hashlib.blake2b(described, digest_size=8, key=self.message_key(), person=b"castleguard same").hexdigest()

    def message_key(self) -> bytes:
        """32 bytes, the key of messages."""
        return hashlib.blake2b(self.key, digest_size=32, person=b"castleguard msgs").digest()
