"""Identity of a site, and what it shares with the others."""

from typing import Any

import pytest

from castleguard.errors import PolicyError
from castleguard.sites.site_membership import Membership


def member(**changes: Any) -> Membership:
    return Membership(**{"name": "b", "sites": ("c", "a", "b"), "key": b"secret", "epoch": "1", **changes})


def test_site_must_be_one_of_the_named_sites() -> None:
    assert member().others == ("c", "a")
    with pytest.raises(PolicyError, match="'d' is not one of the sites c, a, b"):
        member(name="d")
    with pytest.raises(PolicyError, match="two sites have the same name"):
        member(sites=("a", "b", "b"))


def test_number_of_a_site_does_not_depend_on_the_order_of_names() -> None:
    assert member().number == member(sites=("a", "b", "c")).number == 1


def test_sites_hash_persons_alike_only_with_the_same_key() -> None:
    keys = [tuple(one.token_key()) for one in (member(), member(name="a", epoch="2"), member(key=b"other"))]
    assert keys[0] == keys[1] != keys[2]
    assert member().message_key() == member(name="a").message_key() != member(key=b"other").message_key()
    assert len(member().message_key()) == 32
    assert member().message_key()[:16] != member().token_key().tobytes()


def test_agreement_requires_equal_schema_policy_sites_and_key() -> None:
    same = member().agreement({"policy": {"k": 5}, "schema": 1})
    assert member(name="a", sites=("a", "b", "c"), epoch="9").agreement({"schema": 1, "policy": {"k": 5}}) == same
    for other in (
        member().agreement({"policy": {"k": 4}, "schema": 1}),
        member(key=b"other").agreement({"policy": {"k": 5}, "schema": 1}),
        member(sites=("b", "a")).agreement({"policy": {"k": 5}, "schema": 1}),
    ):
        assert other != same


def test_repr_does_not_show_the_key() -> None:
    assert "secret" not in repr(member())
