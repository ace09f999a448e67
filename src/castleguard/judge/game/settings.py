"""Settings of the membership game: a policy, a background, canaries, and the claims to judge.

`setting_for` chooses them for a policy so that leaks are likely to show: the neighbours are those of the claim, and one
window of the claim covers all rows of a canary.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from castleguard.algorithms.policy import Policy
from castleguard.judge.attack.canaries import Canary, Stream, standard_canaries, with_values_replaced
from castleguard.judge.attack.features import Features, Observer, PointObserver, Row
from castleguard.judge.game.backgrounds import CLOCK, SCHEMA, background_for, game_of
from castleguard.judge.game.claims import Neighbours, Stated, claims_about, neighbours_of
from castleguard.schema.roles import Schema


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Input of a game. It can be pickled if its `features` can."""

    policy: Policy
    schema: Schema
    background: Stream
    canaries: Sequence[Canary]
    claims: Sequence[Stated]
    clock: str | None = None
    """Column of the background with the arrival time; None if all rows arrive at once."""
    features: Features | None = None
    """Features to observe; None for those of an observer who knows the canary rows."""
    made_up: bool = True
    """Whether the background is made up. Reports about real rows do not show numbers that may be their values."""

    def observer(self, canary: Canary) -> Features:
        """Observer that looks for a canary, in boxes or among points."""
        if self.features is not None:
            return self.features
        published = self.policy.publication(self.schema)
        if published.form == "points":
            return PointObserver(self.schema, canary.known)
        return Observer(self.schema, canary.known, place=canary.place, closed=published.closed)


@dataclass(frozen=True, kw_only=True)
class Given:
    """Rows of a real stream, instead of made-up ones."""

    schema: Schema
    rows: Stream


def setting_for(
    policy: Policy, given: Given | None = None, *, epsilon: float | None = None, dp_delta: float | None = None
) -> Setting:
    """Setting for a policy. `epsilon` and `dp_delta`: an additional claim to judge (see `claims_about`)."""
    schema = SCHEMA if given is None else given.schema
    rows = background_for(policy) if given is None else given.rows
    neighbours = neighbours_of(policy, schema)
    return Setting(
        policy=policy,
        schema=schema,
        background=rows,
        canaries=canaries_for(policy, schema, rows, neighbours),
        claims=claims_about(policy, schema, epsilon=epsilon, dp_delta=dp_delta),
        clock=CLOCK if given is None and policy.timed else None,
        made_up=given is None,
    )


def with_background(setting: Setting, rows: Stream) -> Setting:
    """The same setting with another background of the same schema, and canaries for it."""
    neighbours = neighbours_of(setting.policy, setting.schema)
    return replace(setting, background=rows, canaries=canaries_for(setting.policy, setting.schema, rows, neighbours))


def canaries_for(policy: Policy, schema: Schema, rows: Stream, neighbours: Neighbours) -> list[Canary]:
    """Standard canaries for these neighbours, and the group at which the claim is tightest, if known."""
    game = game_of(policy, schema)
    found = list(standard_canaries(schema, rows, whole_person=neighbours.whole_person))
    if neighbours.whole_person:
        found = [_in_one_window(canary, game.window_rows) for canary in found]
    if game.critical_group is not None and schema.sensitive:
        found.append(worst_group(game.critical_group, schema, rows))
    return [with_values_replaced(canary, schema, rows) for canary in found] if neighbours.replaced else found


def worst_group(size: int, schema: Schema, rows: Stream) -> Canary:
    """Canary in the group at which the claim is tightest: one of its rows is present or absent."""
    rare = next(canary for canary in standard_canaries(schema, rows) if canary.name == "unique sensitive value")
    group = [_person(rare.rows[0], schema.person, number) for number in range(size)]
    return Canary(name="worst group", rows=group[-1:], company=group[:-1], at=rare.at)


def _person(row: Row, column: str | None, number: int) -> Row:
    """A copy of the row for another person."""
    if column is None:
        return row
    first = row[column]
    return {**row, column: first + number if isinstance(first, int) else f"{first} {number}"}


def _in_one_window(canary: Canary, window: float | None) -> Canary:
    """Limit the canary to the rows of one window of arrivals, and place it inside one."""
    if window is None or len(canary.rows) == 1:
        return canary
    rows = canary.rows[: int(window)]
    # Windows of DOCA and SDGS begin at multiples of their length; a ledger's window begins anywhere.
    at = canary.at if canary.at % window + len(rows) <= window else int(canary.at // window * window)
    return replace(canary, rows=rows, at=at)
