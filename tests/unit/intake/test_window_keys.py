"""Keys of windows: a function of the window's number, forgotten once the window is over."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castleguard.errors import SnapshotError, UsageError
from castleguard.intake.window_coin import WindowKeys
from tests.reference.window_coin import window_key

KEY = bytes(range(32))
WINDOWS = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(WINDOWS, min_size=1, max_size=6))
def test_a_key_depends_on_the_number_of_its_window_alone(windows: list[int]) -> None:
    keys = WindowKeys(KEY)
    assert [keys.at(window) for window in sorted(windows)] == [window_key(KEY, window) for window in sorted(windows)]


@given(WINDOWS, st.integers(1, 10))
def test_kept_keys_do_not_give_keys_of_past_windows(window: int, before: int) -> None:
    keys = WindowKeys(KEY)
    keys.at(window)
    kept = keys.snapshot()
    firsts = [int(prefix) << (64 - int(depth)) for prefix, depth in zip(kept["prefixes"], kept["depths"], strict=True)]
    assert min(firsts) == window + 2**63
    assert len(firsts) <= 65
    with pytest.raises(UsageError, match="must not go back"):
        keys.at(window - before)


@given(WINDOWS, st.integers(0, 1000))
def test_a_restored_snapshot_gives_the_same_keys(window: int, later: int) -> None:
    keys, restored = WindowKeys(KEY), WindowKeys(bytes(32))
    keys.at(window)
    restored.restore(keys.snapshot())
    then = min(window + later, 2**63 - 1)
    assert restored.at(then) == keys.at(then)


def test_a_snapshot_without_keys_is_refused() -> None:
    with pytest.raises(SnapshotError, match="keys of its windows are missing"):
        WindowKeys(KEY).restore({})
