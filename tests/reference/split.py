"""The functions split() (section 4.1) and split^l() (section 4.2) of CASTLE.

Readings taken where the pseudo-code is open or wrong:

* split: the seed leaves its bucket; rows of one person may differ, so a bucket offers its row nearest to the seed; the
  rows left over are placed one by one, each where it enlarges least.
* split^l: the quota k * |B| / sum is rounded up, and the seed counts inside the quota of its own bucket. Rounded down
  or to the nearest, a rare value gets no row and the sub-cluster loses its diversity. Sizes and sum are those at the
  head of the loop. Rows in a bucket stay in order of position; sorting them serves only to select.
* Rows without a person (None) are in no bucket: they are placed last, each where it enlarges least.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from .chacha import Choices, choose
from .measure import EPS, Cluster, Domain, Row, named, values

BucketRule = Literal["random", "balanced"]


@dataclass(frozen=True)
class Event:
    """A release under way: the row whose position addresses the draws, where they come from, and the space."""

    position: int
    choices: Choices
    domain: Domain

    def choose(self, purpose: str, n: int) -> int:
        return choose(self.choices, purpose, self.position, n)


def split(rows: Sequence[Row], k: int, event: Event) -> list[Cluster]:
    """Sub-clusters of at least k persons each, in the order they were made. `rows` come in order of position."""
    parts: list[Cluster] = []
    buckets = _by_person(named(rows))
    while len(buckets) >= k:
        seed_bucket = buckets[event.choose("seed_bucket", len(buckets))]
        seed = seed_bucket.pop(event.choose("row_in_bucket", len(seed_bucket)))
        part = Cluster([seed])
        offers = [_offer(bucket, seed, event.domain) for bucket in buckets if bucket is not seed_bucket]
        offers.sort(key=lambda offer: offer.distance)  # stable: buckets at the same distance keep their order
        for offer in offers[: k - 1]:
            part.add(offer.row)
            offer.bucket.remove(offer.row)
        buckets = [bucket for bucket in buckets if bucket]
        parts.append(part)
    for bucket in buckets:
        for row in bucket:
            _nearest(parts, row, event.domain).add(row)
    _add_nobody(rows, parts, event.domain)
    return parts


def _add_nobody(rows: Iterable[Row], parts: list[Cluster], domain: Domain) -> None:
    """Rows without a person come last, each to the sub-cluster that it enlarges least."""
    for row in rows:
        if row.person is None:
            _nearest(parts, row, domain).add(row)


@dataclass(frozen=True)
class _Offer:
    """Row of a bucket nearest to the seed; the first wins ties."""

    distance: float
    row: Row
    bucket: list[Row]


def _offer(bucket: list[Row], seed: Row, domain: Domain) -> _Offer:
    distances = [domain.distance(seed, row) for row in bucket]
    least = min(distances)
    return _Offer(least, bucket[distances.index(least)], bucket)


def split_diverse(rows: Sequence[Row], sensitive: int, k: int, l: int, rule: BucketRule, event: Event) -> list[Cluster]:
    """split^l on one sensitive attribute: sub-clusters of at least k persons and l values each."""
    buckets = generate_buckets(named(rows), sensitive, rule, event)
    if len(buckets) < l:
        return [Cluster(list(rows))]
    parts: list[Cluster] = []
    while len(buckets) >= l and sum(map(len, buckets)) >= k:
        total = sum(map(len, buckets))
        quotas = [_divide_up(k * len(bucket), total) for bucket in buckets]
        chosen = event.choose("seed_bucket", len(buckets))
        seed = buckets[chosen].pop(event.choose("row_in_bucket", len(buckets[chosen])))
        quotas[chosen] -= 1
        part = Cluster([seed])
        for bucket, quota in zip(buckets, quotas, strict=True):
            for row in _cheapest(bucket, part, quota, event.domain):
                part.add(row)
                bucket.remove(row)
        buckets = [bucket for bucket in buckets if bucket]
        parts.append(part)
    for bucket in buckets:
        for row in bucket:
            _nearest(parts, row, event.domain).add(row)
    _bring_other_rows(named(rows), parts)
    _add_nobody(rows, parts, event.domain)
    return parts


def _divide_up(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)


def _cheapest(bucket: list[Row], part: Cluster, quota: int, domain: Domain) -> list[Row]:
    """The rows that enlarge the sub-cluster least, as it stands before any of them joins."""
    return sorted(bucket, key=lambda row: (domain.enlargement(part.box, row.box), row.position))[:quota]


def _bring_other_rows(rows: Iterable[Row], parts: list[Cluster]) -> None:
    """Rows that were not selected for a bucket follow the row of their person that was."""
    home = {row.person: part for part in parts for row in part.rows}
    placed = {row.position for part in parts for row in part.rows}
    for row in rows:
        if row.position not in placed:
            home[row.person].add(row)


def generate_buckets(rows: Sequence[Row], sensitive: int, rule: BucketRule, event: Event) -> list[list[Row]]:
    """One row per person, grouped by sensitive value.

    Buckets are in order of their oldest row, rows in order of position. The paper does not say which row of a person to
    take: "random" draws it; "balanced" serves the persons with the fewest values first and gives each the value of its
    own that is rarest so far, so that as many values as possible survive.
    """
    chosen = _random_rows(rows, event) if rule == "random" else _balanced_rows(rows, sensitive)
    buckets: dict[Hashable, list[Row]] = {}
    for row in sorted(chosen, key=lambda row: row.position):
        buckets.setdefault(row.sensitive[sensitive], []).append(row)
    return list(buckets.values())


def _random_rows(rows: Sequence[Row], event: Event) -> list[Row]:
    return [own[event.choose("person_row", len(own))] for own in _by_person(rows)]


def _balanced_rows(rows: Sequence[Row], sensitive: int) -> list[Row]:
    chosen: list[Row] = []
    assigned: dict[Hashable, int] = {}
    for own in sorted(_by_person(rows), key=lambda own: len(values(own, sensitive))):  # stable: then first arrival
        row = min(own, key=lambda row: assigned.get(row.sensitive[sensitive], 0))  # the first of the rarest
        value = row.sensitive[sensitive]
        assigned[value] = assigned.get(value, 0) + 1
        chosen.append(row)
    return chosen


def _by_person(rows: Iterable[Row]) -> list[list[Row]]:
    """Rows grouped by person, persons in order of first arrival."""
    buckets: dict[Hashable, list[Row]] = {}
    for row in rows:
        buckets.setdefault(row.person, []).append(row)
    return list(buckets.values())


def _nearest(parts: list[Cluster], row: Row, domain: Domain) -> Cluster:
    """Sub-cluster that the row enlarges least; the oldest wins ties."""
    best, least = parts[0], domain.enlargement(parts[0].box, row.box)
    for part in parts[1:]:
        enlargement = domain.enlargement(part.box, row.box)
        if enlargement < least - EPS:
            best, least = part, enlargement
    return best
