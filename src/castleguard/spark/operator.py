"""The Spark operator: rows of a DataFrame in; published rows, rejected rows and books out.

    select -> part -> (shuffle) -> one Shard per key -> unpack
              mapInArrow           transformWithStateInPandas   mapInArrow

`part` routes rows to their shards, many rows per blob. The state of a shard is one binary value. Shards return blobs,
which `unpack` turns back into rows.
"""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from castleguard.algorithms.policy import Policy
from castleguard.algorithms.stages import KEY_BYTES, check_policy, check_schema
from castleguard.checkpoint.codec import table_from_bytes
from castleguard.errors import CastleguardError, SchemaError, UsageError
from castleguard.release.encode import Numbers
from castleguard.schema.roles import Schema
from castleguard.shards.cuts import cut_domain
from castleguard.shards.plan import Plan, Route
from castleguard.shards.promises import check
from castleguard.shards.routing import HashRoute, LocalityRoute
from castleguard.shards.shard import Outcome, Shard, derive_key
from castleguard.spark.blobs import LABEL, ROWS, labels_of, part, pieces, unpack
from castleguard.spark.output import output_schema, output_tables
from castleguard.telemetry.logs import LOG

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BLOBS = f"{LABEL} int, {ROWS} binary"
_PUBLISHED = f"{ROWS} binary"
_STATE = "state binary"
_CODE_BYTES = 1 << 16  # upper estimate of the code that is sent with the plan
_FOR_EVER = "1000000000s"  # 31 years
_QUERY_AND_BATCH = ("sql.streaming.queryId", "streaming.sql.batchId")


def anonymise(
    frame: "DataFrame",
    schema: Schema,
    policy: Policy,
    *,
    shards: int = 1,
    route: Literal["hash", "locality"] | Route = "hash",
    position: tuple[str, ...] | list[str] = (),
    numbers: Numbers | None = None,
) -> "DataFrame":
    """Return a DataFrame with published rows, rejected rows and books, distinguished by the column `outcome`.

    `shards` engines share the rows by `route`: the "hash" of the person, "locality" along even cuts of the domain, or a
    route of `castleguard.shards.routing`. A streaming frame needs `max_wait` in its policy; rows of a shard's first
    micro-batch are published from its second on. A batch frame counts as complete and is flushed.

    `position`: columns that define the order of rows, such as partition and offset.
    """
    check_schema(schema)
    check_policy(policy)
    plan = Plan(
        schema=schema,
        policy=policy,
        route=_route(route, schema, shards, tuple(position)),
        numbers=numbers,
        position=tuple(position),
    )
    return run_plan(frame, plan)


def _route(named: str | Route, schema: Schema, shards: int, position: tuple[str, ...]) -> Route:
    if named == "hash":
        return HashRoute(schema, shards, position)
    if named == "locality":
        return LocalityRoute(schema, cut_domain(schema, shards))
    if isinstance(named, str):
        raise UsageError(f"route must be 'hash', 'locality' or a route of castleguard.shards.routing, got {named!r}")
    if named.shards != shards:
        raise UsageError(f"the route has {named.shards} shards, but shards={shards}: make them equal")
    return named


def run_plan(frame: "DataFrame", plan: Plan, *, key: bytes | None = None) -> "DataFrame":
    """Run a plan on a frame, as `anonymise` does.

    `key`: 32 secret bytes that make the rerun of a failed batch deterministic. A stream keeps its keys in its state.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    check(plan, streaming=frame.isStreaming)
    if frame.isStreaming and key is not None:
        raise UsageError("a stream keeps its keys in its state: pass `key` for batch frames only")
    missing = [name for name in plan.columns if name not in frame.columns]
    if missing:
        raise SchemaError(f"the frame has no column {', '.join(missing)}: it has {', '.join(frame.columns)}")
    _warn_of_partitions(frame, plan)
    if frame.isStreaming:
        _check_size(frame, plan)
    # Renamed inside the query: Spark takes a dot in a name for access to a struct field.
    quoted = [f"`{name.replace('`', '``')}`" for name in plan.columns]
    chosen = frame.selectExpr(*(f"{name} as c{number}" for number, name in enumerate(quoted)))
    output = output_schema(plan, _arrow_schema(chosen, plan.columns))
    if frame.isStreaming:
        chosen = chosen.union(_heartbeat(chosen))
    # Drawn once, on the driver: a repeated task must have the same result.
    key = key or os.urandom(KEY_BYTES)
    labels = labels_of(plan.shards)

    def parted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with hiding_values():
            named = (batch.rename_columns(list(plan.columns)) for batch in batches)
            yield from part(named, plan.route, labels)

    processor = _processor(plan, labels, output, streaming=frame.isStreaming, key=key)
    with any_pandas():
        published = (
            chosen.mapInArrow(parted, _BLOBS)
            .groupBy(LABEL)
            .transformWithStateInPandas(processor, _PUBLISHED, "append", "processingTime")
        )
        return published.mapInArrow(unpack, from_arrow_schema(output, prefer_timestamp_ntz=True))


def _heartbeat(frame: "DataFrame") -> "DataFrame":
    """Return a source without rows that triggers a micro-batch every second, so that rows leave after `max_wait`.

    Without it Spark runs no micro-batch after a restart until rows arrive. This is Spark's rate source with a ramp-up
    time of decades.
    """
    beats = frame.sparkSession.readStream.format("rate").options(rowsPerSecond=1, rampUpTime=_FOR_EVER, numPartitions=1)
    columns = [f"cast(null as {field.dataType.simpleString()}) as {field.name}" for field in frame.schema]
    return beats.load().where("value < 0").selectExpr(*columns)


@contextmanager
def any_pandas() -> Iterator[None]:
    """Suppress the warning about the version of pandas: it carries only bytes and integers, so every version works."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
        yield


def _arrow_schema(frame: "DataFrame", names: tuple[str, ...]) -> pa.Schema:
    """Return the Arrow types of the frame's columns, as Spark converts an empty frame."""
    with any_pandas():
        return frame.sparkSession.createDataFrame([], frame.schema).toArrow().rename_columns(list(names)).schema


def _warn_of_partitions(frame: "DataFrame", plan: Plan) -> None:
    partitions = int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or 0)
    if partitions != plan.shards:
        LOG.warning(
            "spark.sql.shuffle.partitions is %d, but the query has %d shards: set it to the number of shards before "
            "the query starts, or some partitions get several shards and others none",
            partitions,
            plan.shards,
        )


def _check_size(frame: "DataFrame", plan: Plan) -> None:
    """Refuse a plan that Spark would send to its workers as a broadcast, which fails for streams."""
    from pyspark import serializers

    spark: Any = serializers
    context: Any = frame.sparkSession.sparkContext
    limit = int(context._jvm.PythonUtils.getBroadcastThreshold(context._jsc))
    size = len(spark.CloudPickleSerializer().dumps(plan)) + _CODE_BYTES
    if size > limit:
        raise UsageError(
            f"the plan takes {size:,} bytes, including hierarchies and cut points, but Spark sends at most {limit:,} "
            f"to the workers of a stream: set spark.broadcast.UDFCompressionThreshold to 512m before the session "
            f"starts"
        )


def _processor(plan: Plan, labels: list[int], output: pa.Schema, *, streaming: bool, key: bytes) -> Any:
    """Return the stateful processor of the shards. Its class is local because its base needs pyspark."""
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    numbers = {label: number for number, label in enumerate(labels)}

    class Processor(StatefulProcessor):
        """Passes rows and timers to the shard, and its state to Spark."""

        def init(self, handle: Any) -> None:
            self._handle = handle
            self._state = handle.getValueState("shard", _STATE)

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
            with hiding_values():
                table = pa.concat_tables([table_from_bytes(blob) for frame in rows for blob in frame[ROWS]])
                now = timerValues.getCurrentProcessingTimeInMs() / 1000
                number = numbers[int(key[0])]
                shard = self._shard(number)
                outcome = shard.take(table, now)
                if streaming:
                    self._store(shard, now)
                    yield from frames(outcome, number)
                else:
                    yield from frames(outcome, number)
                    yield from frames(shard.flush(now), number)

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:  # noqa: N802, N803
            with hiding_values():
                now = timerValues.getCurrentProcessingTimeInMs() / 1000
                number = numbers[int(key[0])]
                shard = self._shard(number)
                outcome = shard.tick(now)
                self._store(shard, now, fired=expiredTimerInfo.getExpiryTimeInMs())
                yield from frames(outcome, number)

        def close(self) -> None:
            """Do nothing."""

        def _shard(self, number: int) -> Shard:
            state = self._state.get() if self._state.exists() else None
            if state is not None:
                return Shard.restore(plan, number, bytes(state[0]))
            if streaming:
                return Shard(plan, number, key=derive_key(key, _query_and_batch()))
            return Shard(plan, number, key=key, kept=True)

        def _store(self, shard: Shard, now: float, *, fired: int | None = None) -> None:
            before, wanted = shard.move_alarm(now)
            if before not in (None, wanted, fired):  # Spark itself removes an expired timer
                self._handle.deleteTimer(before)
            if wanted not in (None, before):
                self._handle.registerTimer(wanted)
            self._state.update((shard.snapshot(),))

    def frames(outcome: Outcome, number: int) -> Iterator[pd.DataFrame]:
        found = [blob for table in output_tables(outcome, number, output) for blob in pieces(table)]
        yield pd.DataFrame({ROWS: pd.Series(found, dtype=object)})

    return Processor()


def _query_and_batch() -> str:
    """Return the identity of the query and the micro-batch: Spark expects all attempts of a task to reach one state.

    If Spark does not provide it, attempts draw different keys, of which one is stored.
    """
    from pyspark import TaskContext

    task = TaskContext.get()
    found = [None if task is None else task.getLocalProperty(name) for name in _QUERY_AND_BATCH]
    return os.urandom(KEY_BYTES).hex() if None in found else f"query {found[0]} batch {found[1]}"


class hiding_values:  # noqa: N801
    """Guards code in a worker: a foreign error may quote a value, and Spark would show it in logs and to the driver."""

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Replace a foreign error by one that names only its type."""
        if error is None or isinstance(error, CastleguardError | GeneratorExit) or not isinstance(error, Exception):
            return
        if os.environ.get("CASTLEGUARD_DEBUG"):
            return
        raise RuntimeError(
            f"castleguard failed in a worker with {type(error).__name__}; please report it (CASTLEGUARD_DEBUG=1 in "
            f"the environment of the workers shows more, possibly including values of rows)"
        ) from None
