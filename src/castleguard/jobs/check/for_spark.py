"""Checks that only a job for Apache Spark needs: the installation, skipped files, and the shards."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from castleguard.errors import CastleguardError
from castleguard.jobs.check.checklist import Check
from castleguard.spark.reading import FileRead

if TYPE_CHECKING:
    from castleguard.spark.spark_job import Prepared


def check_installation() -> Check:
    """Whether pyspark and Java are installed."""
    from castleguard.spark.session import check_installed

    try:
        found = check_installed()
    except CastleguardError as exc:
        return Check("spark", f"{exc}", "bad")
    return Check("spark", f"pyspark {found.spark} and Java {found.java or 'of spark-submit'} are installed")


def check_plan(prepared: "Prepared") -> Iterator[Check]:
    """Files that Spark skips, and how rows are spread over shards."""
    skipped = skipped_files(prepared)
    if skipped is not None:
        yield Check("source", skipped, "doubtful", "rename files that should be read")
    shards = prepared.plan.shards
    if shards == 1:
        yield Check(
            "spark", "one shard, so only one core works", "doubtful", "use more shards, at the cost of more loss"
        )
    else:
        yield Check("spark", f"{shards} shards, rows distributed by {', '.join(prepared.plan.route.columns)}")
    if not prepared.plan.position:
        yield Check(
            "spark",
            "without a position, rejected rows are reported without their place",
            "doubtful",
            "name the columns of the order in spark.position",
        )


def skipped_files(prepared: "Prepared") -> str | None:
    """A sentence about files that a Spark stream skips silently because of their names; None without any."""
    if not prepared.streaming or not isinstance(prepared.reading, FileRead):
        return None
    skipped = prepared.reading.left_out()
    if not skipped:
        return None
    files = f"1 file is skipped ({skipped[0]})"
    if len(skipped) > 1:
        files = f"{len(skipped):,} files are skipped ({skipped[0]} and others)"
    return f"{files}: Spark streams ignore names that begin with _ or . or end with ._COPYING_"
