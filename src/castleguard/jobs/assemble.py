"""Assembles a running job from its file: stream, parts and loop."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from castleguard.checkpoint.cipher import Cipher
from castleguard.checkpoint.dead_letters import DeadLetters
from castleguard.checkpoint.store import Store
from castleguard.config.job_model import JobFile
from castleguard.config.places import check_places
from castleguard.coordination import Coordinator
from castleguard.errors import ConfigError, Mistake, PolicyError, SchemaError
from castleguard.job import Job, Pace, Parts
from castleguard.jobs.endpoints import (
    Nowhere,
    cipher_of,
    manifest_of,
    open_quietly,
    open_relay,
    open_sink,
    open_source,
    unfit_values,
)
from castleguard.jobs.identity import identity_of
from castleguard.runtime.clock import WallClock
from castleguard.runtime.pace import Retry
from castleguard.runtime.stopping import Stop
from castleguard.schema.published_text import unfit_text
from castleguard.sites.coordinator import SiteCoordinator
from castleguard.sites.site_membership import Membership
from castleguard.sites.transport import Transport
from castleguard.stream import Anonymiser
from castleguard.telemetry.logs import LOG
from castleguard.telemetry.metrics import Status


def make_stream(job: JobFile, snapshot: bytes | None = None, *, coordinator: Coordinator | None = None) -> Anonymiser:
    """A new stream, or one restored from a snapshot."""
    _check_schema_texts(job)
    schema, policy, numbers = job.schema, job.policy, job.numbers
    try:
        if snapshot is not None:
            stream = Anonymiser.restore(schema, policy, snapshot, numbers=numbers, coordinator=coordinator)
        else:
            stream = Anonymiser(schema, policy, numbers=numbers, coordinator=coordinator)
    except (PolicyError, SchemaError) as exc:
        raise ConfigError(Mistake(f"cannot work: {exc}", where=job.where("privacy"), key="privacy")) from exc
    stream.reject_unfit(unfit_values(job))
    return stream


def _check_schema_texts(job: JobFile) -> None:
    """Refuse a schema with a text that the sink cannot write."""
    found = unfit_text(job.schema, unfit_values(job))
    if found is not None:
        why = (
            f"cannot write {found}, which a spreadsheet would run as a formula: "
            f"rename it, or set csv.formulas to escape"
        )
        raise ConfigError(Mistake(why, where=job.where("sink"), key="sink"))


def membership_of(job: JobFile) -> Membership:
    """The membership of this site, in a new epoch."""
    assert job.sites is not None
    assert job.site is not None
    key = job.sites.key_bytes()
    return Membership(name=job.site, sites=job.sites.names, key=key, epoch=f"{time.time_ns():020d}")


def make_site_stream(job: JobFile, relay: Transport, snapshot: bytes | None = None) -> Anonymiser:
    """The stream of one site: a new one, or one restored from a snapshot."""
    assert job.sites is not None
    member = membership_of(job)
    seal = Cipher(member.message_key())
    coordinator = SiteCoordinator(member, relay, seal=seal, patience=job.sites.patience)
    return make_stream(job, snapshot, coordinator=coordinator)


def make_job(
    job: JobFile,
    *,
    stop: Stop | None = None,
    watch: Callable[[Status], None] = lambda _: None,
    dry_run: bool = False,
    allow_duplicates: bool = False,
) -> Job:
    """The job, restored from its last commit, with undelivered rows delivered.

    A dry run starts from the beginning and delivers, stores and acknowledges nothing. A sink that is not exactly-once
    may get rows twice, which `allow_duplicates` must permit for a policy that draws noise.
    """
    refuse_spark(job)
    check_places(job)
    if dry_run:
        if job.source.never_ends:
            LOG.warning(
                "the source never ends, so this dry run does not either: press Ctrl-C to stop and see the books"
            )
        parts = Parts(
            open_source=partial(open_quietly, job),
            make_stream=partial(make_stream, job),
            sink=Nowhere(job.sink),
            observed=False,
        )
        return Job(parts, stop=stop, watch=watch)
    pace = Pace() if job.checkpoint is None else Pace(every=job.checkpoint.every)
    if job.sites is not None:
        pace = replace(pace, poll=_SITE_POLL)
    cipher = cipher_of(job)
    with ExitStack() as opened:
        store = None
        if job.checkpoint is not None:
            # Before the sink: opening the sink cleans up, which must not happen while another process writes to it.
            store = opened.enter_context(Store(job.checkpoint.path, cipher=cipher))
        letters = None if job.dead_letter is None else DeadLetters(job.dead_letter.path, cipher=cipher)
        sink = Retry(WallClock(), pace, stop or Stop()).until_available(partial(open_sink, job), "the sink")
        opened.callback(sink.close)
        check_duplicates(job, exactly_once=sink.exactly_once, allowed=allow_duplicates)
        parts = Parts(
            open_source=partial(open_source, job),
            make_stream=partial(make_stream, job),
            sink=sink,
            store=store,
            letters=letters,
            identity=identity_of(job),
            manifest=manifest_of(job),
            max_reject_share=1.0 if job.dead_letter is None else job.dead_letter.max_share,
        )
        if job.sites is not None:
            relay = open_relay(job)
            opened.callback(relay.close)
            joint = job.policy.joint
            parts = replace(
                parts,
                open_source=partial(open_source, job, most=None if joint is None else joint.step),
                make_stream=partial(make_site_stream, job, relay),
                close=relay.close,
            )
        made = Job(parts, pace=pace, stop=stop, watch=watch)
        opened.pop_all()
    return made


_SITE_POLL = 0.02  # seconds that a site waits for rows before it reads messages again


def check_duplicates(job: JobFile, *, exactly_once: bool, allowed: bool) -> None:
    """Refuse a sink that may get rows twice under a policy that draws noise, unless that is allowed."""
    if not exactly_once and job.policy.draws_noise and not allowed:
        why = (
            f"{job.sink.type} may get rows twice after a crash, and a row published twice with noise reveals more than "
            f"is promised: use another sink, or --allow-duplicates"
        )
        raise ConfigError(Mistake(why, where=job.where("sink"), key="sink.type"))


def refuse_spark(job: JobFile) -> None:
    """Refuse a job for Spark: its checkpoint is a folder, and its rows are spread over shards."""
    if job.spark is not None:
        why = (
            "makes this a job for Apache Spark: run it with `castleguard spark` (with --until-idle to end it), or "
            "delete the section"
        )
        raise ConfigError(Mistake(why, where=job.where("spark"), key="spark"))
