"""Five hundred consumers in a hundred groups: how soon each has its partitions, and what they cost
while they only send heartbeats.
"""

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from benchmarks.brokers import RunningBroker, started_brokers
from benchmarks.measuring import MEGABYTE, Samples, Scale, figure
from benchmarks.members import Crowd, Member
from benchmarks.report import Report
from benchmarks.wire import WireClient

GROUPS = 100
MEMBERS = 5
"""Of each group."""

EAGER_HEARTBEAT_S = 0.25
"""While groups form: how soon a member learns that another one has come."""

HEARTBEAT_S = 3.0
"""Then: Kafka's default."""

IDLE_S = 10

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One measurement of one broker; the costs are unknown where there is no /proc."""

    settle_s: float
    heartbeats_per_second: float
    settle_cpu_s: float | None = None
    idle_cpu_share: float | None = None
    resident_bytes: int | None = None


def run(scale: Scale) -> Iterator[Report]:
    groups, members = scale.of(GROUPS, 2), scale.of(MEMBERS, 2)
    with (
        scale.data_directory() as directory,
        started_brokers(directory, peers=scale.peers) as (brokers, notes),
    ):
        contestants = {
            broker.name: lambda broker=broker: _attempt(broker, scale, notes) for broker in brokers
        }
        runs = scale.take_turns(contestants)
    found = {name: [one for one in all_ if one is not None] for name, all_ in runs.items()}
    report = _report(f"{groups * members} consumers in {groups} groups", found)
    report.notes.append(
        f"Members send heartbeats every {EAGER_HEARTBEAT_S} s until their groups have formed, "
        f"and every {HEARTBEAT_S:.0f} s then. Processor time is in steps of 10 ms."
    )
    report.notes.extend(notes)
    yield report


def _attempt(broker: RunningBroker, scale: Scale, notes: list[str]) -> Run | None:
    """A peer may know of groups less than is asked here."""
    try:
        return _measure(broker, scale)
    except (OSError, RuntimeError) as error:
        if broker.name == "ottla":
            raise
        notes.append(f"{broker.name} has failed: {error}.")
        return None


def _measure(broker: RunningBroker, scale: Scale) -> Run:
    idle_s = scale.of(IDLE_S * 10, 1) / 10
    with contextlib.ExitStack() as stack:
        members = _members(broker, scale)
        crowd = Crowd(members)
        stack.callback(crowd.close)
        before = broker.cost()
        settle_s = crowd.settle(EAGER_HEARTBEAT_S)
        between = broker.cost()
        crowd.heartbeat_count = 0
        crowd.idle(idle_s, HEARTBEAT_S)
        after = broker.cost()
        for member in members:
            member.leave()
    run = Run(settle_s=settle_s, heartbeats_per_second=crowd.heartbeat_count / idle_s)
    if before is None or between is None or after is None:
        return run
    return replace(
        run,
        settle_cpu_s=between.cpu_seconds - before.cpu_seconds,
        idle_cpu_share=(after.cpu_seconds - between.cpu_seconds) / idle_s,
        resident_bytes=after.resident_bytes,
    )


def _members(broker: RunningBroker, scale: Scale) -> list[Member]:
    """All connected, none has joined; members of a group come one after the other."""
    with WireClient(broker.host, broker.port) as client:
        topic = client.create_topic()
    run_number = next(_numbers)
    members = []
    for number in range(scale.of(GROUPS, 2)):
        group_id = f"bench-{run_number}-{number}"
        mine = [
            Member(broker.host, broker.port, group_id, topic) for _ in range(scale.of(MEMBERS, 2))
        ]
        mine[0].find_coordinator()
        members += mine
    return members


COLUMNS = (
    "broker",
    "s until assigned",
    "from ... to",
    "CPU s for it",
    "heartbeats/s",
    "CPU % then",
    "MB",
)


def _report(title: str, runs: dict[str, list[Run]]) -> Report:
    report = Report(title, COLUMNS)
    for name, all_ in runs.items():
        if not all_:
            continue
        settled = Samples(tuple(one.settle_s for one in all_))
        shares = [one.idle_cpu_share for one in all_]
        sizes = [one.resident_bytes for one in all_]
        report.add(
            name,
            figure(settled.median),
            settled.spread,
            _median([one.settle_cpu_s for one in all_]),
            _median([one.heartbeats_per_second for one in all_]),
            _median([None if one is None else one * 100 for one in shares]),
            _median([None if one is None else one / MEGABYTE for one in sizes]),
        )
    return report


def _median(values: list[float | None]) -> str:
    known = tuple(one for one in values if one is not None)
    return figure(Samples(known).median) if known else "-"
