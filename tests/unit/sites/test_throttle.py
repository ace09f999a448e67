"""Throttle of a site's joint releases."""

from castleguard.sites.joint_releases import Moment, Throttle


def test_fast_decisions_raise_the_limit() -> None:
    throttle = Throttle(delay=100, slow=6)
    assert throttle.has_room(Moment(0, 0.0), 0)
    assert not throttle.has_room(Moment(0, 0.0), 1)
    for arrivals in range(3):
        throttle.record(arrivals, Moment(arrivals + 6, 0.0))
    assert throttle.has_room(Moment(9, 0.0), 7)
    assert not throttle.has_room(Moment(9, 0.0), 8)


def test_slow_decision_pauses_and_resets_the_limit() -> None:
    throttle = Throttle(delay=100, slow=6)
    for _ in range(20):
        throttle.record(0, Moment(0, 0.0))
    throttle.record(0, Moment(7, 0.0))
    assert throttle.is_paused(Moment(31, 0.0))
    assert not throttle.has_room(Moment(31, 0.0), 0)
    assert not throttle.is_paused(Moment(32, 0.0))
    assert throttle.has_room(Moment(32, 0.0), 0)
    assert not throttle.has_room(Moment(32, 0.0), 1)


def test_pause_ends_without_arrivals() -> None:
    throttle = Throttle(delay=100, slow=6)
    throttle.record(0, Moment(7, 50.0))
    assert throttle.is_paused(Moment(7, 54.0))
    assert not throttle.is_paused(Moment(7, 55.0))


def test_number_of_open_releases_is_bounded() -> None:
    throttle = Throttle(delay=100, slow=6)
    for _ in range(100):
        throttle.record(0, Moment(0, 0.0))
    assert not throttle.has_room(Moment(0, 0.0), 128)
