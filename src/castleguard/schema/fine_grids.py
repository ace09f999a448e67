"""The warning about a public grid that is finer than the data: bounds of a cell with a single value tell that value."""

import numpy as np

from castleguard.schema.coded import Quasi
from castleguard.schema.decode import SAMPLE
from castleguard.schema.roles import Numeric, Schema
from castleguard.telemetry.logs import LOG


class GridCheck:
    """Looks at the first values of a stream, and warns once."""

    def __init__(self, schema: Schema, *, needed: bool) -> None:
        """`needed`: published bounds are made of true values."""
        self._roles = schema.quasi_identifiers
        self._needed = needed
        self.done = False
        self.sample: Quasi = np.empty((0, len(self._roles)))

    def look_at(self, values: Quasi) -> None:
        """Warn once where a cell of the public grid holds a single value of the data: its bounds then tell it."""
        if self.done or not self._needed:
            return
        self.sample = np.concatenate([self.sample, values])[:SAMPLE]
        if len(self.sample) < SAMPLE:
            return
        self.done = True
        fine = [
            role.name
            for column, role in enumerate(self._roles)
            if isinstance(role, Numeric) and role.hides_nothing(self.sample[:, column])
        ]
        self.sample = self.sample[:0]
        if fine:
            LOG.warning(
                "%s: a cell of the grid holds a single value of the data, so published bounds can tell it; "
                "give a larger step",
                ", ".join(fine),
            )
