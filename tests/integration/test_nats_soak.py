"""Stop and start the server at random moments: every site reconnects every time."""

import logging
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from castleguard.connectors.nats.nats_options import Access
from castleguard.connectors.nats.relay import NatsRelay
from castleguard.errors import UnavailableError
from castleguard.telemetry.background import tasks
from tests.contract.transports import decided_again
from tests.integration.broker_nats import NatsBroker
from tests.patience import PATIENCE
from tests.soak import effort

pytestmark = [pytest.mark.integration, pytest.mark.soak]

LOG = logging.getLogger(__name__)
SITES = ("berlin", "paris", "rome")


def test_every_site_reconnects_every_time(tmp_path: Path) -> None:
    chance = random.Random(17)
    broker = NatsBroker(tmp_path)
    broker.start()
    sites = {name: NatsRelay(Access(servers=broker.url), "trips", name) for name in SITES}
    longest = mended = 0.0
    cuts = effort(8, 500)
    try:
        for cut in range(cuts):
            with talking(sites, chance):
                # An interruption may also hit sites that are still reconnecting after the last one.
                for _ in range(chance.choice((1, 1, 2))):
                    time.sleep(chance.uniform(0.0, 0.15))
                    broker.kill()
                    time.sleep(chance.choice((0.0, chance.uniform(0.0, 0.3))))
                    broker.start()
                    mended = time.monotonic()
            for name, site in sites.items():
                assert decided_again(site, f"{name}.1.{cut}", b"commit") == b"commit", f"{name}, cut {cut}"
            longest = max(longest, time.monotonic() - mended)
            assert everybody_hears(sites, cut), cut
        assert all(task.up for task in tasks())
        LOG.info("%d cuts: all %d sites came back every time, within %.2f s", cuts, len(sites), longest)
    finally:
        for site in sites.values():
            site.close()
        broker.kill()
    assert longest < PATIENCE / 2


def everybody_hears(sites: dict[str, NatsRelay], cut: int) -> bool:
    """Whether a message to all reaches all others. Sent again while some may still reconnect."""
    limit = time.monotonic() + PATIENCE
    for name, site in sites.items():
        message = f"from {name} after cut {cut}".encode()
        deaf = {other for other in sites if other != name}
        while deaf:
            assert time.monotonic() < limit, f"{sorted(deaf)} do not hear {name} after cut {cut}"
            site.send(None, message)
            time.sleep(0.005)
            deaf -= {other for other in deaf if message in sites[other].receive()}
    return True


@contextmanager
def talking(sites: dict[str, NatsRelay], chance: random.Random) -> Iterator[None]:
    """Let every site send and query meanwhile, so that an interruption hits it at any point."""
    ends = threading.Event()

    def talk(site: NatsRelay, seed: int) -> None:
        own = random.Random(seed)
        while not ends.wait(own.uniform(0.0, 0.02)):
            site.send(None, b"x" * 100)
            with suppress(UnavailableError):
                site.decision("nothing.1.1")

    talkers = [threading.Thread(target=talk, args=(site, chance.randrange(1 << 30))) for site in sites.values()]
    for talker in talkers:
        talker.start()
    try:
        yield
    finally:
        ends.set()
        for talker in talkers:
            talker.join()
