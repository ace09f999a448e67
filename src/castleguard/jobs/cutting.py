"""Cut points between shards, chosen from published rows or from the domain."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from castleguard.jobs.publication import read_published
from castleguard.release.encode import Numbers
from castleguard.schema.roles import Schema
from castleguard.shards.cut_tree import Cuts
from castleguard.shards.cuts import cut_domain, cut_published, shares
from castleguard.shards.cuts_file import describe_shards


class Chosen(NamedTuple):
    """Cut points and a description. `str()` has a line for each shard."""

    cuts: Cuts
    words: tuple[str, ...]
    """Description of each shard."""
    shares: tuple[float, ...] | None
    """Share of the published rows in each shard; None if the domain was halved."""

    def __str__(self) -> str:
        if self.shares is None:
            return "\n".join(f"shard {shard}: {text}" for shard, text in enumerate(self.words))
        lines = [f"shard {shard}: {self.shares[shard]:6.1%}  {text}" for shard, text in enumerate(self.words)]
        largest = max(self.shares) * self.cuts.shards
        lines.append(f"The largest shard has {largest:.2f} times its fair share of the published rows.")
        return "\n".join(lines)


def choose_cuts(
    published: Sequence[Path],
    schema: Schema,
    shards: int,
    *,
    columns: Sequence[str] | None = None,
    numbers: Numbers = "bounds",
    formulas: str | None = None,
) -> Chosen:
    """Cut the quasi-identifiers into this many shards. Never reads original rows: cut points are public."""
    if not published:
        found = cut_domain(schema, shards, columns=columns)
        return Chosen(found, tuple(describe_shards(found, schema)), None)
    tables = [read_published(path, formulas).rows for path in published]
    table = pa.concat_tables(tables, promote_options="permissive")
    found = cut_published(table, schema, shards, numbers=numbers, columns=columns)
    return Chosen(found, tuple(describe_shards(found, schema)), shares(found, table, schema, numbers=numbers))
