"""The stream of a site, with shortcuts for tests."""

from castleguard.algorithms.policy import Policy
from castleguard.schema.roles import Schema
from castleguard.sites.cooperation import Cooperation
from castleguard.sites.coordinator import SiteCoordinator
from castleguard.sites.site_membership import Membership
from castleguard.sites.site_messages import Seal
from castleguard.sites.transport import Transport
from castleguard.sites.wire import Wire
from castleguard.stream import Anonymiser


class SiteStream(Anonymiser):
    """A stream with the coordinator of a site."""

    def __init__(
        self,
        schema: Schema,
        policy: Policy,
        site: Membership,
        transport: Transport,
        *,
        seal: Seal | None = None,
        seed: int | None = None,
    ) -> None:
        self.site = SiteCoordinator(site, transport, seal=seal, seed=seed)
        super().__init__(schema, policy, seed=seed, coordinator=self.site)

    @property
    def wire(self) -> Wire:
        """The messages of the site."""
        return self.site.wire

    @property
    def cooperation(self) -> Cooperation:
        """The protocol."""
        return self.site.cooperation

    def resume(self, blob: bytes) -> None:
        """Restore a snapshot, with the seed of this stream."""
        self.site.restore(blob, self._restore)
