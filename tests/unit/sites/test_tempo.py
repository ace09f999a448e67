"""Whether a site takes part."""

from castleguard.sites.tempo import Tempo


def test_a_site_that_agrees_fast_proposes_more_and_more() -> None:
    tempo = Tempo(delay=100, slow=6)
    assert tempo.has_room(0, 0)
    assert not tempo.has_room(0, 1)
    for arrivals in range(3):
        tempo.took(arrivals, arrivals + 6)
    assert tempo.has_room(9, 7)
    assert not tempo.has_room(9, 8)


def test_a_slow_agreement_makes_a_pause_and_a_new_beginning() -> None:
    tempo = Tempo(delay=100, slow=6)
    for _ in range(20):
        tempo.took(0, 0)
    tempo.took(0, 7)
    assert tempo.is_paused(31)
    assert not tempo.has_room(31, 0)
    assert not tempo.is_paused(32)
    assert tempo.has_room(32, 0)
    assert not tempo.has_room(32, 1)


def test_the_number_of_open_releases_is_bounded() -> None:
    tempo = Tempo(delay=100, slow=6)
    for _ in range(100):
        tempo.took(0, 0)
    assert not tempo.has_room(0, 128)
