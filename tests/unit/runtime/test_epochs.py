"""Epochs: what is stored, what the manifest shows, and that the list is bounded."""

import pytest

import castleguard as cg
from castleguard.runtime import epochs as module
from castleguard.runtime.epochs import Described, Epochs, other_parts

SCHEMA = cg.Schema(person="pid", quasi_identifiers=[cg.Numeric("age", lower=0, upper=100, step=5)])


def described(**policy: object) -> Described:
    chosen = cg.Castleguard(**{"k": 2, "delay": 10, "epsilon": 1.0, "rows_per_person": 1, "dp_delta": 0.0, **policy})  # type: ignore[arg-type]
    return cg.Anonymiser(SCHEMA, chosen).describe()


def after(epochs: Epochs, stream: Described, *, carried: bool, part: int | None, sink: str = "a") -> Epochs:
    """Add an epoch."""
    epochs.begin(stream, version="1", sink=sink, carried=carried)
    return Epochs.load(epochs.after(part, "finished").facts())


def test_old_epochs_that_share_their_counts_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST", 3)
    epochs = Epochs()
    for number in range(1, 11):
        epochs = after(epochs, described(), carried=number > 1, part=number)
    assert len(epochs.epochs) == 3
    assert (epochs.epochs[0].first, epochs.epochs[0].last) == (1, 8)
    assert not epochs.epochs[0].counts_on
    assert "together" not in str(epochs.together(described(), carried=True))
    assert "(2, 0)" in str(epochs.together(described(), carried=False))


def test_epochs_whose_losses_add_up_are_never_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST", 3)
    epochs = Epochs()
    for number in range(1, 7):
        epochs = after(epochs, described(), carried=False, part=number)
    assert len(epochs.epochs) == 6
    assert "(7, 0)-differential privacy" in str(epochs.together(described(), carried=False))


def test_epochs_that_share_their_counts_are_summed_once() -> None:
    epochs = Epochs()
    for carried in (False, True, True, False, True):
        epochs = after(epochs, described(), carried=carried, part=None)
    assert "(2, 0)-differential privacy" in str(epochs.together(described(), carried=True))
    assert "(3, 0)-differential privacy" in str(epochs.together(described(), carried=False))


def test_deltas_are_summed() -> None:
    many = described(rows_per_person=200, epsilon=0.01, dp_delta=1e-6)
    assert many.guarantee.privacy is not None
    assert many.guarantee.privacy.dp_delta == 1e-6
    epochs = after(Epochs(), many, carried=False, part=1)
    assert ", 2e-06)-differential privacy" in str(epochs.together(many, carried=False))


def test_manifest_lists_only_epochs_of_its_sink() -> None:
    epochs = after(Epochs(), described(), carried=False, part=4)
    epochs = after(epochs, described(k=3), carried=True, part=9, sink="b")
    assert [epoch["parts"] for epoch in epochs.manifest("b")["epochs"]] == [[5, 9]]
    assert len(epochs.manifest("b")["statements"]) == 1
    assert other_parts(epochs.manifest("b"), described(k=3)) == []
    assert other_parts(epochs.manifest("a"), described(k=3)) == ["parts 1 to 4 published with another policy.k"]


def test_manifest_omits_an_epoch_without_parts() -> None:
    epochs = after(Epochs(), described(), carried=False, part=None)
    assert epochs.manifest("a") == {"format": 1, "statements": {}, "epochs": []}
