"""A thousand connections that say nothing: their memory, their processor time, and what a client
that works beside them notices.

Every idle client has asked for the versions and for metadata first, as real ones have.
"""

import contextlib
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.brokers import RunningBroker, started_brokers
from benchmarks.machine import can_pin, on_a_core_each
from benchmarks.measuring import MEGABYTE, Samples, Scale, figure, percentile
from benchmarks.report import Report
from benchmarks.requests import one_by_one
from benchmarks.wire import Producing, WireClient
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.metadata import MetadataRequest

COUNT = 1000
WORK = 2000
"""Requests, one in flight, before and beside the idle connections."""

FILES = 4 * COUNT
NEWEST_METADATA = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One measurement of one broker; the costs are unknown where there is no /proc."""

    connect_us: float
    grown_bytes: float | None
    idle_cpu_share: float | None
    alone: list[float]
    beside: list[float]
    """Seconds of requests."""


def run(scale: Scale) -> Iterator[Report]:
    _allow_files()
    count = scale.of(COUNT, 5)
    with (
        scale.data_directory() as directory,
        started_brokers(directory, peers=scale.peers) as (brokers, notes),
    ):
        contestants = {
            broker.name: lambda broker=broker: _measure(broker, scale) for broker in brokers
        }
        runs = scale.take_turns(contestants)
    report = _report(count, runs)
    report.notes.append(
        "Memory is that of the first round: later ones find what the first has left."
    )
    report.notes.extend(notes)
    yield report


def _allow_files() -> None:
    """Here, and in the brokers that are started from here."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


def _measure(broker: RunningBroker, scale: Scale) -> Run:
    count, work = scale.of(COUNT, 5), scale.of(WORK, 5)
    producing = Producing(broker.host, broker.port)
    with contextlib.ExitStack() as stack:
        stack.callback(producing.close)
        if can_pin():
            stack.enter_context(on_a_core_each(broker.pid))
        one_by_one(producing, work)
        alone = one_by_one(producing, work)
        before = broker.cost()
        started = time.perf_counter()
        for _ in range(count):
            _ask_for_metadata(stack.enter_context(WireClient(broker.host, broker.port)))
        connect_us = (time.perf_counter() - started) / count * 1e6
        after = broker.cost()
        share = _idle_share(broker, scale.of(5000, 10) / 1000)
        beside = one_by_one(producing, work)
        producing.check(3 * work)
    grown_bytes = None
    if before is not None and after is not None:
        grown_bytes = after.resident_bytes - before.resident_bytes
    return Run(
        connect_us=connect_us,
        grown_bytes=grown_bytes,
        idle_cpu_share=share,
        alone=alone,
        beside=beside,
    )


def _ask_for_metadata(client: WireClient) -> None:
    client.ask(MetadataRequest(topics=[]), client.version(ApiKey.METADATA, NEWEST_METADATA))


def _idle_share(broker: RunningBroker, seconds: float) -> float | None:
    """Of one core, while nobody says anything."""
    before = broker.cost()
    time.sleep(seconds)
    after = broker.cost()
    if before is None or after is None:
        return None
    return (after.cpu_seconds - before.cpu_seconds) / seconds


COLUMNS = (
    "broker",
    "MB for all",
    "idle CPU %",
    "us to connect",
    "p50 us alone",
    "p50 us beside",
    "p99 us alone",
    "p99 us beside",
)


def _report(count: int, runs: dict[str, list[Run]]) -> Report:
    report = Report(f"{count:,} idle connections", COLUMNS)
    for name, all_ in runs.items():
        grown = all_[0].grown_bytes
        shares = [one.idle_cpu_share for one in all_ if one.idle_cpu_share is not None]
        times = [
            figure(_median([percentile(seconds, percent) * 1e6 for seconds in samples]))
            for percent in (50, 99)
            for samples in ([one.alone for one in all_], [one.beside for one in all_])
        ]
        report.add(
            name,
            "-" if grown is None else figure(grown / MEGABYTE),
            figure(_median(shares) * 100) if shares else "-",
            figure(_median([one.connect_us for one in all_])),
            *times,
        )
    return report


def _median(values: list[float]) -> float:
    return Samples(tuple(values)).median
