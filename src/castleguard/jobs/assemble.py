"""From a job file to live objects: the only place that knows every implementation."""

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any, cast, get_args

import pyarrow as pa

from castleguard.checkpoint.cipher import Cipher
from castleguard.checkpoint.letters import DeadLetters, check_letters
from castleguard.checkpoint.store import Checkpoint, Store
from castleguard.config.job_file import Options, load_job
from castleguard.config.job_model import Endpoint, JobFile
from castleguard.config.places import check_places
from castleguard.connectors import registry
from castleguard.connectors.base import Position, Sink, Source, Unfit
from castleguard.connectors.csv_options import csv_of
from castleguard.connectors.file_sink import last_part
from castleguard.connectors.holding import Held, check_held
from castleguard.connectors.manifest import Manifest
from castleguard.connectors.registry import Connector
from castleguard.coordination import Coordinator
from castleguard.errors import ConfigError, OutputError, PolicyError, SchemaError
from castleguard.job import Job, Pace, Parts
from castleguard.privacy.guarantee import Guarantee
from castleguard.runtime.clock import WallClock
from castleguard.runtime.continuing import check_identity, check_letters_have_a_place, continued
from castleguard.runtime.epochs import Epochs, sink_name
from castleguard.runtime.retrying import Retry
from castleguard.runtime.stopping import Stop
from castleguard.schema.published_text import unfit_text
from castleguard.sites.coordinator import SiteCoordinator
from castleguard.sites.membership import Membership
from castleguard.sites.memory import Relay
from castleguard.sites.transport import Transport
from castleguard.stream import Anonymiser
from castleguard.telemetry.logs import LOG
from castleguard.telemetry.metrics import Status

_ENDLESS = ("kafka", "nats")
FORMATS = ("csv", "jsonl", "parquet", "arrow")
"""Types of a sink that is a folder of parts."""


def load(path: str | Path, *, site: str | None = None) -> JobFile:
    """Read a job file, for one of its sites if it has some; raises ConfigError with one line per problem."""
    return load_job(path, Connectors(), site=site, relay=relay_options)


def relay_options() -> type:
    """What a job file can say about the relay between its sites."""
    from castleguard.connectors.nats.options import Access

    return Access


def connector_of(endpoint: Endpoint) -> Connector:
    """The connector of a source or sink."""
    return find_connector(endpoint.type)


def open_source(job: JobFile, position: Position | None = None, *, most: int | None = None) -> Source:
    """The source, to begin at a position that it gave, or at its beginning; to read so many rows at once, `most`."""
    opener = connector_of(job.source).open_source
    if opener is None:
        raise ConfigError(f"{job.where('source')}  source.type cannot be {job.source.type}: that is no source")
    return opener(_small(_named(job.source.options, job.name), most), job.schema.columns, position)


def open_sink(job: JobFile) -> Sink:
    """The sink."""
    opener = connector_of(job.sink).open_sink
    if opener is None:
        raise ConfigError(f"{job.where('sink')}  sink.type cannot be {job.sink.type}: that is no sink")
    return opener(_named(job.sink.options, job.name))


def make_stream(job: JobFile, snapshot: bytes | None = None, *, coordinator: Coordinator | None = None) -> Anonymiser:
    """A new stream, or the one that a snapshot was taken of."""
    _check_schema_texts(job)
    schema, policy, numbers = job.schema, job.policy, job.numbers
    try:
        if snapshot is not None:
            stream = Anonymiser.restore(schema, policy, snapshot, numbers=numbers, coordinator=coordinator)
        else:
            stream = Anonymiser(schema, policy, numbers=numbers, coordinator=coordinator)
    except (PolicyError, SchemaError) as exc:
        raise ConfigError(f"{job.where('privacy')}  privacy cannot work: {exc}") from exc
    stream.reject_unfit(unfit_values(job))
    return stream


def unfit_values(job: JobFile) -> Unfit | None:
    """Which values the sink cannot take; None: it takes all."""
    connector = connector_of(job.sink)
    return None if connector.unfit is None else connector.unfit(job.sink.options)


def _check_schema_texts(job: JobFile) -> None:
    """Refuse a schema that has a text of its own which the sink cannot take."""
    found = unfit_text(job.schema, unfit_values(job))
    if found is not None:
        raise ConfigError(
            f"{job.where('sink')}  sink cannot take {found}, which a spreadsheet would run as a formula: rename it, or "
            f"set csv.formulas to escape"
        )


def open_relay(job: JobFile) -> Transport:
    """What carries messages to the other sites. Raises OutputError, ConfigError; a server that is away may come."""
    from castleguard.connectors.nats.relay import NatsRelay

    assert job.sites is not None
    assert job.site is not None
    return NatsRelay(job.sites.relay.options, job.name, job.site)


def membership_of(job: JobFile) -> Membership:
    """Who this site is, in the epoch that begins now."""
    assert job.sites is not None
    assert job.site is not None
    key = job.sites.key_bytes()
    return Membership(name=job.site, sites=job.sites.names, key=key, epoch=f"{time.time_ns():020d}")


def make_site_stream(job: JobFile, relay: Transport, snapshot: bytes | None = None) -> Anonymiser:
    """The stream of one of several sites: a new one, or the one that a snapshot was taken of."""
    assert job.sites is not None
    member = membership_of(job)
    seal = Cipher(member.message_key())
    coordinator = SiteCoordinator(member, relay, seal=seal, patience=job.sites.patience)
    return make_stream(job, snapshot, coordinator=coordinator)


def find_connector(kind: str) -> Connector:
    """The connector of this name; raises ConfigError if there is none, or if its module cannot be imported."""
    try:
        return registry.find(kind)
    except ImportError as exc:
        raise ConfigError(f"the connector {kind!r} cannot be loaded: {exc}") from exc


class Connectors(Mapping[str, Options]):
    """The options of all connectors. A module is imported when its options are asked for, not before."""

    def __getitem__(self, kind: str) -> Options:
        if kind not in registry.names():
            raise KeyError(kind)
        found = find_connector(kind)
        return Options(found.source_options, found.sink_options)

    def __contains__(self, kind: object) -> bool:
        return kind in registry.names()

    def __iter__(self) -> Iterator[str]:
        return iter(registry.names())

    def __len__(self) -> int:
        return len(registry.names())


def make_job(
    job: JobFile,
    *,
    stop: Stop | None = None,
    watch: Callable[[Status], None] = lambda _: None,
    dry_run: bool = False,
    allow_duplicates: bool = False,
) -> Job:
    """The job itself, at the point where it stopped, with what was left to deliver delivered.

    A dry run begins at the beginning, delivers nothing, stores nothing and acknowledges nothing. A sink that cannot
    know what it has may get rows twice; for a policy that draws noise that has to be allowed.
    """
    refuse_spark(job)
    check_places(job)
    if dry_run:
        if getattr(job.source.options, "follow", False) or job.source.type in _ENDLESS:
            LOG.warning("the source never ends, and so does this dry run: Ctrl-C ends it and shows the books")
        parts = Parts(
            open_source=partial(_open_quietly, job),
            make_stream=partial(make_stream, job),
            sink=Nowhere(job.sink),
            observed=False,
        )
        return Job(parts, stop=stop, watch=watch)
    pace = Pace() if job.checkpoint is None else Pace(every=job.checkpoint.every)
    if job.sites is not None:
        pace = replace(pace, poll=_SITE_POLL)
    cipher = _cipher(job)
    with ExitStack() as opened:
        store = None
        if job.checkpoint is not None:
            # Before the sink: opening that tidies up, and must not do so while another process is writing to it.
            store = opened.enter_context(Store(job.checkpoint.path, cipher=cipher))
        letters = None if job.dead_letter is None else DeadLetters(job.dead_letter.path, cipher=cipher)
        sink = Retry(WallClock(), pace, stop or Stop()).until_available(partial(open_sink, job), "the sink")
        opened.callback(sink.close)
        _check_duplicates(job, exactly_once=sink.exactly_once, allowed=allow_duplicates)
        streams: Callable[[bytes | None], Anonymiser] = partial(make_stream, job)
        sources, close = partial(open_source, job), _nothing
        if job.sites is not None:
            relay = open_relay(job)
            opened.callback(relay.close)
            streams, close = partial(make_site_stream, job, relay), relay.close
            joint = job.policy.joint
            sources = partial(sources, most=None if joint is None else joint.step)
        parts = Parts(
            open_source=sources,
            make_stream=streams,
            sink=sink,
            close=close,
            store=store,
            letters=letters,
            identity=_identity_of(job),
            manifest=manifest_of(job),
            max_reject_share=1.0 if job.dead_letter is None else job.dead_letter.max_share,
        )
        made = Job(parts, pace=pace, stop=stop, watch=watch)
        opened.pop_all()
    return made


_SITE_POLL = 0.02  # seconds that a site waits for rows before it listens to the others again


def _nothing() -> None:
    """Nothing to let go of."""


def _check_duplicates(job: JobFile, *, exactly_once: bool, allowed: bool) -> None:
    if not exactly_once and job.policy.draws_noise and not allowed:
        raise ConfigError(
            f"{job.where('sink')}  sink.type {job.sink.type} may get rows twice after a crash, and a row that is "
            f"published twice with noise says more than is promised: use another sink, or --allow-duplicates"
        )


def check_start(job: JobFile, *, allow_duplicates: bool = False) -> int:
    """Raise what `run` would raise when it opens its checkpoint, its sink and its source at their position, as far as
    that can be found without changing anything; the number of the commit that it would go on from.

    Brokers are asked what they have, but not for the last segment: that takes a producer of the job's own name.
    """
    _check_duplicates(job, exactly_once=connector_of(job.sink).exactly_once, allowed=allow_duplicates)
    latest = _look(job)
    if latest is None and job.checkpoint is not None and job.checkpoint.path.exists():
        check_kept(job)  # what is there is not a file
    folder = Path(job.sink.options.path) if job.sink.type in FORMATS else None
    there = last_part(folder) if folder is not None and folder.exists() else 0
    latest = continued(latest, there, _identity_of(job), stored=job.checkpoint is not None)
    check_letters_have_a_place(latest, has_letters=job.dead_letter is not None)
    check_kept(job)
    if job.source.type in FORMATS and latest.position is not None:
        open_source(job, latest.position).close()
    return latest.number


def refuse_spark(job: JobFile) -> None:
    """Refuse a job that is one for Spark: its checkpoint is a folder, and its rows are spread over shards."""
    if job.spark is not None:
        raise ConfigError(
            f"{job.where('spark')}  spark says that this is a job for Apache Spark: run it with `castleguard spark` "
            f"(with --until-idle to end it), or delete the section"
        )


def check_kept(job: JobFile) -> None:
    """Look at what the job has kept, and refuse it where `run` would: a checkpoint of another key, job, schema or
    policy, a file that holds no dead letters of this key. Nothing is changed. Raises UnavailableError if the job is
    running.
    """
    if job.checkpoint is not None and job.checkpoint.path.exists():
        _check_checkpoint(job, job.checkpoint.path)
    if job.dead_letter is not None:
        check_letters(job.dead_letter.path, cipher=_cipher(job))


def _check_checkpoint(job: JobFile, path: Path) -> None:
    with Store(path, cipher=_cipher(job), read_only=True) as store:
        latest = store.load()
    if latest is None or (latest.ended == "drained" and latest.delivered):
        return
    check_identity(_identity_of(job), latest)
    if latest.snapshot is None:
        return
    if job.site is not None:
        make_site_stream(job, Relay().join(job.site), latest.snapshot)  # whom nobody hears
    else:
        make_stream(job, latest.snapshot)


def manifest_of(job: JobFile) -> Manifest | None:
    """What describes the parts of a job that publishes files; None for any other sink."""
    return Manifest(job.sink.options.path) if job.sink.type in FORMATS else None


def promised(job: JobFile) -> Guarantee:
    """The statement of the epoch that the job is in, or of the one that its next run begins. Nothing is changed. Raises
    UnavailableError if the job is running.
    """
    latest = None if job.sites is not None else _look(job)  # sites count no rows of a person
    if latest is None:
        return job.policy.guarantee(job.schema, seeded=False)
    epochs, stream = Epochs.of(latest), make_stream(job)
    if latest.snapshot is not None:
        return epochs.together(stream.describe())
    carried = latest.carried is not None and not stream.take_over(latest.carried)
    return epochs.together(stream.describe(), carried=carried)


def published_before(job: JobFile) -> dict[str, Any]:
    """What is known of the parts in the sink, as a manifest: from the folder itself, or from the checkpoint. Nothing is
    changed. Raises UnavailableError if the job is running.
    """
    manifest = manifest_of(job)
    if manifest is not None:
        return manifest.read()
    latest = _look(job)
    epochs = Epochs() if latest is None else Epochs.of(latest)
    return epochs.manifest(sink_name(_identity_of(job)))


def _look(job: JobFile) -> Checkpoint | None:
    """The latest commit of a job, without a lock; None if there is none."""
    if job.checkpoint is None or not job.checkpoint.path.is_file():
        return None
    with Store(job.checkpoint.path, cipher=_cipher(job), read_only=True) as store:
        return store.load()


def has_committed(job: JobFile) -> bool:
    """Whether the checkpoint of a job holds anything: a job that never ran has none. Raises UnavailableError if it is
    in use.
    """
    refuse_spark(job)
    if job.checkpoint is None or not job.checkpoint.path.exists():
        return False
    with Store(job.checkpoint.path, cipher=_cipher(job)) as store:
        return store.load() is not None


def check_letters_are_gone(job: JobFile) -> None:
    """Refuse to change the key of a job while letters under the former one lie where it writes the next."""
    if job.dead_letter is not None and job.dead_letter.path.exists() and job.dead_letter.path.stat().st_size:
        raise OutputError(
            f"{job.dead_letter.path} holds letters that were written with the key of before, or without one: move it "
            f"away, then change the key. `castleguard letters --file` opens it as long as that key is there"
        )


def change_key(job: JobFile, key: bytes | None) -> None:
    """Seal the checkpoint of a drained job with another key, or with none. The job file still names the former one."""
    assert job.checkpoint is not None
    check_letters_are_gone(job)
    with Store(job.checkpoint.path, cipher=_cipher(job)) as store:
        store.change_key(None if key is None else Cipher(key))


def _cipher(job: JobFile) -> Cipher | None:
    key = None if job.checkpoint is None else job.checkpoint.key_bytes()
    return None if key is None else Cipher(key)


class Nowhere:
    """A sink that keeps nothing: for a dry run."""

    exactly_once = True
    longest_row = None

    def __init__(self, sink: Endpoint) -> None:
        """In place of a sink, whose format it knows."""
        format = getattr(sink.options, "format", sink.type)
        self._format = "jsonl" if format == "json" else format

    def last(self) -> int:
        """Nothing is there."""
        return 0

    def check(self, columns: pa.Schema) -> None:
        """Refuse what the format of the real sink cannot hold."""
        if self._format in get_args(Held):
            check_held(columns, cast(Held, self._format), "the sink")

    def deliver(self, number: int, table: pa.Table) -> None:
        """Forget it."""

    def close(self) -> None:
        """Nothing to let go of."""


class _Quiet:
    """A source that is not told what was read: its broker keeps no mark of a dry run."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.read, self.position, self.lag, self.close = source.read, source.position, source.lag, source.close

    @property
    def finished(self) -> bool:
        return self._source.finished

    def acknowledge(self, position: Position) -> None:
        """Keep it to ourselves."""


def _open_quietly(job: JobFile, position: Position | None) -> Source:
    return _Quiet(open_source(job, position))


def _named(options: Any, name: str) -> Any:
    """Options in which the job's name stands where a connector asks for it and the file says nothing."""
    asked = [option.name for option in fields(options) if option.metadata.get("default") == "job name"]
    return replace(options, **{option: name for option in asked if getattr(options, option) is None})


def _small(options: Any, most: int | None) -> Any:
    """Options by which not more rows are read at once, as far as the connector lets one choose."""
    sizes = [option.name for option in fields(options) if option.name in ("batch_rows", "batch_messages")]
    return options if most is None else replace(options, **{name: min(getattr(options, name), most) for name in sizes})


def _identity_of(job: JobFile) -> dict[str, Any]:
    """What no other job has in common with this one. What the source chooses stands apart from the source itself: a
    drained job may choose otherwise, and goes on where it stands all the same.
    """
    chosen = [option.name for option in fields(job.source.options) if option.metadata.get("identity") == "choice"]
    reads = {"reads": _hashes(job, job.source, chosen)} if chosen else {}
    known = {"name": job.name, "source": _identity(job, job.source), "sink": _identity(job, job.sink), **reads}
    if job.sites is not None:
        # With another key persons would have other hashes than those that are pending: nobody would recognise them.
        key = _hash(job.sites.key_bytes().hex())
        known["sites"] = {"name": job.site, "names": sorted(job.sites.names), "key": key}
    return known


def _identity(job: JobFile, endpoint: Endpoint) -> dict[str, str]:
    """What a source or sink is: the options whose fields are marked so, or else all that are not secret."""
    every = fields(endpoint.options)
    marked = [option.name for option in every if option.metadata.get("identity") is True]
    if csv_of(endpoint.options) is None and "csv" in marked:  # a section that means nothing here
        marked.remove("csv")
    names = marked or [option.name for option in every if option.name not in endpoint.hidden]
    return {"type": endpoint.type, **_hashes(job, endpoint, names)}


def _hashes(job: JobFile, endpoint: Endpoint, names: Sequence[str]) -> dict[str, str]:
    """Options as hashes: a name that came from the environment must not be read anywhere."""
    return {name: _hash(_spelt(job, getattr(endpoint.options, name))) for name in names}


def _spelt(job: JobFile, value: object) -> str:
    """A value in one spelling. Paths below the job file's folder are told from there: it may be moved."""
    if not isinstance(value, Path):
        return str(value)
    folder, path = Path(os.path.abspath(job.folder)), Path(os.path.abspath(value))
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.as_posix()


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=16).hexdigest()
