"""The parameters of dCASTLE as printed, the same at every site."""

from dataclasses import dataclass, fields

from castleguard.errors import PolicyError
from castleguard.privacy.parameters import check_count
from castleguard.schema.roles import Numeric, Schema


@dataclass(frozen=True, kw_only=True)
class PaperPolicy:
    """The guarantee that the sites are asked for and do not keep: as printed, groups below k are published.

    For experiments only.
    """

    k: int
    """Persons per cluster as a site counts them: its own plus those shared by others."""
    delay: int
    """Arrivals at its site after which a row leaves: the paper's delta."""
    sites: int
    """The paper's n."""
    l: int = 1  # the papers' own name
    """Distinct values of the first sensitive column per cluster."""
    max_clusters: int = 25
    """Clusters from which on a site opens no further one: beta. Those shared by others are extra."""
    loss_window: int = 100
    """Number of clusters whose mean loss is a site's threshold: mu."""

    def __post_init__(self) -> None:
        for field in fields(self):
            check_count(field.name, getattr(self, field.name), least=2 if field.name == "k" else 1)
        if self.l > self.k:
            raise PolicyError(f"l must not exceed k, got l={self.l} and k={self.k}")

    @property
    def share_from(self) -> int:
        """Size from which on a site shares a cluster: k/n, rounded up (4.2)."""
        return -(-self.k // self.sites)

    def check(self, schema: Schema) -> None:
        """Refuse a schema for which sites could not compute equal losses, or could not count values for l."""
        if self.l > 1 and not schema.sensitive:
            raise PolicyError(f"l={self.l} needs a sensitive column")
        for role in schema.quasi_identifiers:
            if isinstance(role, Numeric) and role.domain is None:
                raise PolicyError(f"column {role.name!r} needs lower and upper: the sites must measure losses alike")
