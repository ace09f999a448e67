"""Pictures of a game: one per claim, with a caption."""

import pytest

from castleguard.judge.game.game_page import pictures_of_game
from tests.unit.judge.audit.played import with_claims, without_claim
from tests.unit.judge.audit.test_audit_page import size

pytest.importorskip("matplotlib")


def test_game_has_a_picture_for_every_claim() -> None:
    own, printed = pictures_of_game(with_claims())
    assert own.title == "Claimed by the policy itself: (0, 0.5) - not refuted"
    assert "delta" in own.caption
    assert printed.title.endswith("- REFUTED")
    assert "epsilon" in printed.caption
    (found,) = pictures_of_game(without_claim())
    assert "more runs" in found.caption
    assert all(min(size(picture.png)) > 100 for picture in (own, printed, found))
