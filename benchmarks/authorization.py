"""What access rules cost the requests of clients that may do what they ask.

The same requests, in turns, to a broker without an authorizer and to one with a thousand rules:
over a socket as clients send them, in processor time of the broker; and without one, in processor
time of the thread, where the share is the largest that it can be.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from benchmarks.brokers import Ottla, RunningBroker
from benchmarks.dispatch import TOPIC, Asker, broker_in, fetch, produce, seconds_of
from benchmarks.measuring import Samples, Scale
from benchmarks.report import Report, Target, add_figure, figures_report
from benchmarks.requests import one_by_one
from benchmarks.wire import Producing
from ottla.base.principal import ANONYMOUS
from ottla.metadata.acls import (
    CLUSTER_NAME,
    Acl,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from ottla.metadata.deciding.topics import NewTopic

RULES = 1000
NAME = "authorizer.class.name"
SETTINGS = {NAME: "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
WITHOUT, WITH = "no authorizer", f"{RULES:,} rules"
TARGET = Target(limit=1.03, unit="")
DISPATCHED = 200
ROUNDS = 50
SENT = 20_000


def run(scale: Scale) -> Iterator[Report]:
    yield _over_sockets(scale)
    yield _dispatched(scale)


def _over_sockets(scale: Scale) -> Report:
    count = scale.of(SENT, 20)
    with scale.data_directory() as directory, contextlib.ExitStack() as stack:
        _write_rules(directory / "ruled")
        given = tuple(map("=".join, SETTINGS.items()))
        brokers = {
            WITHOUT: stack.enter_context(Ottla().start(directory / "plain")),
            WITH: stack.enter_context(Ottla(given).start(directory / "ruled")),
        }
        contestants: dict[str, Callable[[], float]] = {
            name: lambda one=one: _cost_of_each(one, count)  # type: ignore[misc]
            for name, one in brokers.items()
        }
        samples = scale.sampled(contestants)
    report = figures_report("One-record produce requests, one in flight: the broker's time")
    for name, all_ in samples.items():
        add_figure(report, name, all_.scaled(1e6), "us")
    add_figure(report, "with over without", _least(samples), "", TARGET)
    report.notes.append("Ratios are of the least times: what disturbs only ever adds.")
    return report


def _least(samples: Mapping[str, Samples]) -> Samples:
    return Samples((min(samples[WITH].values) / min(samples[WITHOUT].values),))


def _cost_of_each(broker: RunningBroker, count: int) -> float:
    with contextlib.closing(Producing(broker.host, broker.port)) as producing:
        before = broker.cost()
        one_by_one(producing, count)
        after = broker.cost()
    assert before is not None
    assert after is not None
    return max(after.cpu_seconds - before.cpu_seconds, 0.01) / count


def _dispatched(scale: Scale) -> Report:
    times = scale.of(DISPATCHED, 1)
    report = figures_report("The same and fetches without a socket: processor time")
    with scale.data_directory() as directory, contextlib.ExitStack() as stack:
        _write_rules(directory / "ruled")
        askers = {
            WITHOUT: _asker(stack, directory / "plain", {}),
            WITH: _asker(stack, directory / "ruled", SETTINGS),
        }
        for name, request, version in (
            ("produce, one record", produce(1), 9),
            ("fetch, one batch", fetch(1), 11),
        ):
            deeds = {who: one.asking(request, version) for who, one in askers.items()}
            contestants: dict[str, Callable[[], float]] = {
                who: lambda deed=deed: seconds_of(deed, times)  # type: ignore[misc]
                for who, deed in deeds.items()
            }
            samples = scale.sampled(contestants, times=scale.of(ROUNDS, 1))
            for who, all_ in samples.items():
                add_figure(report, f"{name}, {who}", all_.scaled(1e6), "us")
            add_figure(report, f"{name}: with over without", _least(samples), "")
    return report


def _asker(stack: contextlib.ExitStack, path: Path, settings: dict[str, str]) -> Asker:
    broker = broker_in(path, settings)
    stack.callback(broker.close)
    broker.admin.create_topic(NewTopic(name=TOPIC, partition_count=1))
    asker = Asker(broker)
    for _ in range(100):
        asker.ask(produce(160), 9)
    return asker


def _write_rules(path: Path) -> None:
    broker = broker_in(path, SETTINGS)
    broker.security.create_acls(list(_rules()))
    broker.close()


def _rules() -> Iterator[Acl]:
    """The client's own, those of others for its topics, and for prefixes of many lengths."""
    topic, prefixed = ResourceType.TOPIC, PatternType.PREFIXED
    who = str(ANONYMOUS)
    cluster = ResourcePattern(ResourceType.CLUSTER, PatternType.LITERAL, CLUSTER_NAME)
    yield Acl(cluster, Entry(who, "*", Operation.CREATE, Permission.ALLOW))
    for operation in (Operation.READ, Operation.WRITE):
        pattern = ResourcePattern(topic, prefixed, TOPIC)
        yield Acl(pattern, Entry(who, "*", operation, Permission.ALLOW))
    for number in range((RULES - 3) // 2):
        pattern = ResourcePattern(topic, prefixed, TOPIC)
        yield Acl(pattern, Entry(f"User:{number}", "*", Operation.WRITE, Permission.ALLOW))
        pattern = ResourcePattern(topic, prefixed, f"{TOPIC}-{number}-")
        yield Acl(pattern, Entry(who, "*", Operation.ALL, Permission.ALLOW))
