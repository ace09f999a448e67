"""Identity of a site among the sites of a job, and the key they share."""

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
    """The names of all sites, including this one."""
    key: bytes = field(repr=False)
    """Shared by all sites, unknown to the relay: derives the keys that hash persons and seal messages."""
    epoch: str
    """Grows, compared as text, with every start of the site: messages of earlier epochs are void."""

    def __post_init__(self) -> None:
        if len(set(self.sites)) != len(self.sites):
            raise PolicyError("two sites have the same name")
        if self.name not in self.sites:
            raise PolicyError(f"{self.name!r} is not one of the sites {', '.join(self.sites)}")

    @property
    def others(self) -> tuple[str, ...]:
        """The other sites."""
        return tuple(name for name in self.sites if name != self.name)

    @property
    def number(self) -> int:
        """Index among the sorted names, the same for any order of `sites`."""
        return sorted(self.sites).index(self.name)

    def token_key(self) -> NDArray[np.uint64]:
        """Return the key (2,) that hashes persons."""
        digest = hashlib.blake2b(self.key, digest_size=16, person=b"castleguard pids").digest()
        return np.frombuffer(digest, dtype="<u8").astype(np.uint64)

    def agreement(self, identity: dict[str, Any]) -> str:
        """Return a digest of everything that all sites must share: schema and policy, the site names, and the key.

        Only among sites with the same digest does a box have the same meaning and the same guarantee.
        """
        described = json.dumps([identity, sorted(self.sites)], sort_keys=True).encode()
        return hashlib.blake2b(described, digest_size=8, key=self.message_key(), person=b"castleguard same").hexdigest()

    def message_key(self) -> bytes:
        """Return the key (32 bytes) that seals messages."""
        return hashlib.blake2b(self.key, digest_size=32, person=b"castleguard msgs").digest()
