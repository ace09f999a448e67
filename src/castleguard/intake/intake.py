"""The stage between decoding and the engine: the ledger's cap, the coin, the noise, in this order.

A row that is over budget or sampled out goes no further, and its values are not kept. With a clock that counts
arrivals, the engine still learns that a row arrived, because the delay is counted in arrivals. With a clock that counts
sampled rows, it does not.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.intake.window_coin import WindowCoin
from castleguard.kernels.state import Arrays
from castleguard.privacy.epsilon_shares import exact
from castleguard.privacy.ledger import Ledger
from castleguard.privacy.mechanisms import Bernoulli
from castleguard.privacy.noise import Noise
from castleguard.schema.coded import CodedRows

Flags = NDArray[np.bool_]


class Perturbation(Protocol):
    """Noise on values. Rows with the same values and arrival numbers get the same noise, in any batches."""

    def apply(self, rows: CodedRows, first: int, present: Flags) -> CodedRows:
        """Noisy rows; row i has arrival number first + i. The values of rows that are not present are erased."""
        ...

    def snapshot(self) -> Arrays:
        """The whole state."""
        ...

    def restore(self, arrays: Mapping[str, NDArray]) -> None:  # type: ignore[type-arg]
        """Restore from a snapshot."""
        ...


class Taken(NamedTuple):
    """Rows for the engine, and counts of those left out."""

    rows: CodedRows
    payload: pa.Table
    present: Flags | None
    """None: all rows are."""
    over_budget: int = 0
    sampled_out: int = 0


class Intake:
    """The intake of one stream. Every part is optional; without parts, rows pass unchanged.

    `labels`: public values of every sensitive column, from which the payload is rebuilt by code, so that raw values go
    no further. `in_rows`: the ledger's window counts arrivals, not seconds. `leave_no_trace`: the engine does not see
    rows that are left out, not even as a flag.
    """

    def __init__(
        self,
        *,
        ledger: Ledger | None = None,
        coin: Noise | WindowCoin | None = None,
        perturbation: Perturbation | None = None,
        labels: Sequence[pa.Array] = (),
        in_rows: bool = False,
        leave_no_trace: bool = False,
    ) -> None:
        self._ledger, self._coin, self._perturbation = ledger, coin, perturbation
        self._labels = labels
        self._in_rows, self._leave_no_trace = in_rows, leave_no_trace
        self._arrivals = 0

    def take(self, rows: CodedRows, payload: pa.Table, now: float) -> Taken:
        """Process rows that arrive at `now` seconds."""
        first, count = self._arrivals, rows.person.size
        self._arrivals = first + count
        if self._ledger is None and self._coin is None and self._perturbation is None:
            return Taken(rows, self._label(rows, payload), None)
        present = np.ones(count, dtype=np.bool_)
        if self._ledger is not None:
            when = np.arange(first, first + count, dtype=np.float64) if self._in_rows else np.full(count, now)
            present = self._ledger.admit(rows.person, when)
        admitted = int(np.count_nonzero(present))
        if isinstance(self._coin, WindowCoin):
            present = self._coin.flip(rows, now, present)
        elif self._coin is not None:
            present &= self._coin.sample(first, count)
        kept = int(np.count_nonzero(present))
        if self._perturbation is not None:
            rows = self._perturbation.apply(rows, first, present)
        if self._leave_no_trace and kept < count:
            here = np.flatnonzero(present)
            rows, present = rows.take(here), present[here]
            payload = payload.take(pa.array(here)) if payload.num_columns else payload.slice(0, kept)
        return Taken(
            rows, self._label(rows, payload), present, over_budget=count - admitted, sampled_out=admitted - kept
        )

    def snapshot(self) -> Arrays:
        """State of all parts."""
        arrays: Arrays = {"arrivals": np.array([self._arrivals])}
        for name, part in self._parts().items():
            arrays |= {f"{name}_{field}": array for field, array in part.snapshot().items()}
        return arrays

    def restore(self, arrays: Mapping[str, NDArray]) -> None:  # type: ignore[type-arg]
        """Restore from a snapshot."""
        self._arrivals = int(arrays["arrivals"][0])
        for name, part in self._parts().items():
            prefix = f"{name}_"
            own = {field.removeprefix(prefix): array for field, array in arrays.items() if field.startswith(prefix)}
            part.restore(own)

    @property
    def counting(self) -> dict[str, object] | None:
        """Windows of the ledger and their unit, as JSON values; None without a ledger."""
        return (
            None if self._ledger is None else {**self._ledger.windows, "unit": "rows" if self._in_rows else "seconds"}
        )

    def carry(self) -> Arrays:
        """Counts of the ledger, and the number of arrivals, for the next stream of a job."""
        counted = {} if self._ledger is None else self._ledger.snapshot()
        return {"arrivals": np.array([self._arrivals]), **counted}

    def take_over(self, carried: Mapping[str, NDArray]) -> int:  # type: ignore[type-arg]
        """Take over the counts of another intake before the first row; returns the number of the first arrival."""
        assert self._ledger is not None
        self._ledger.restore(carried)
        self._arrivals = int(carried["arrivals"][0])
        return self._arrivals

    def _label(self, rows: CodedRows, payload: pa.Table) -> pa.Table:
        for at, labels in enumerate(self._labels):
            values = labels.take(pa.array(rows.sensitive[:, at]))
            payload = payload.set_column(at, payload.column_names[at], values)
        return payload

    def _parts(self) -> dict[str, Ledger | Noise | WindowCoin | Perturbation]:
        parts = {"ledger": self._ledger, "coin": self._coin, "noise": self._perturbation}
        return {name: part for name, part in parts.items() if part is not None}


def row_coin(sample_rate: float, key: NDArray[np.uint32]) -> Noise | None:
    """Independent coin for each row; None if every row is kept."""
    return None if sample_rate == 1 else Noise((), key=key, rate=Bernoulli(rate=exact("sample_rate", sample_rate)))
