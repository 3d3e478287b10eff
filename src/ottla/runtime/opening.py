"""Opens a broker on log directories, with the machine's clock, random numbers and threads."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ottla.base.clock import Clock, SystemClock
from ottla.base.events import OnEvent, pass_over
from ottla.base.files import FileSystem, OsFileSystem
from ottla.base.ids import Uuid, is_reserved, uuid_text
from ottla.broker.assemble import assemble
from ottla.broker.broker import Broker
from ottla.broker.membership.quorum_start import QuorumStart
from ottla.broker.startup.opening import BrokerOptions
from ottla.config.broker import BrokerConfig, broker_config

if TYPE_CHECKING:
    from ottla.broker.membership.membership import (
        AnyMembership,  # not loaded by a broker without a cluster
    )


class InCluster(NamedTuple):
    """The cluster that a broker is opened in; `quorum` is for a node of a KRaft cluster."""

    cluster_id: str
    membership: "AnyMembership"
    quorum: QuorumStart | None = None


def open_broker(
    paths: Sequence[str],
    settings: Mapping[str, str],
    *,
    clock: Clock,
    file_system: FileSystem | None = None,
    on_progress: Callable[[str], None] = lambda _: None,
    on_event: OnEvent = pass_over,
) -> Broker:
    """Opens the directories, and recovers their logs if necessary; raises `UserError`."""
    if "zookeeper.connect" in settings:
        settings = {**settings, "zookeeper.connect": ""}  # this broker runs without a cluster
    config = broker_config(settings)
    config.check_replicas()
    options = _options(config, new_cluster_id(), clock, on_progress, on_event)
    return assemble(paths, file_system or OsFileSystem(), config, options)


def open_member(
    paths: Sequence[str],
    settings: Mapping[str, str],
    cluster: InCluster,
    *,
    clock: Clock,
    on_progress: Callable[[str], None] = lambda _: None,
    on_event: OnEvent = pass_over,
) -> Broker:
    """Like `open_broker`, for a member of a cluster, whose controller assigns replicas and
    leaderships.
    """
    config = broker_config(settings)
    options = _options(config, cluster.cluster_id, clock, on_progress, on_event)
    options = replace(options, membership=cluster.membership, quorum=cluster.quorum)
    return assemble(paths, OsFileSystem(), config, options)


def _options(
    config: BrokerConfig,
    cluster_id: str,
    clock: Clock,
    on_progress: Callable[[str], None],
    on_event: OnEvent,
) -> BrokerOptions:
    return BrokerOptions(
        now_ms=clock.now_ms(),
        new_id=new_id,
        random_below=random_below,
        cluster_id=cluster_id,
        on_progress=on_progress,
        on_event=on_event,
        run_all=partial(run_in_threads, config.num_recovery_threads_per_data_dir),
        run_directories=lambda tasks: run_in_threads(len(tasks), tasks),
        waiting_clock=SystemClock(),
    )


def new_cluster_id() -> str:
    return uuid_text(new_id())


def new_id() -> Uuid:
    """A random id that Kafka does not reserve."""
    while True:
        candidate = Uuid(os.urandom(16))
        if not is_reserved(candidate):
            return candidate


def random_below(bound: int) -> int:
    from random import randrange  # which a broker needs only for settings with a jitter

    return randrange(bound) if bound > 0 else 0


def run_in_threads(count: int, tasks: Sequence[Callable[[], object]]) -> None:
    """Carries out tasks in up to `count` threads; raises the first error once all have ended.

    If one thread is enough, it is the calling one.
    """
    if count == 1 or len(tasks) <= 1:
        _run_in_turn(tasks)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(count) as pool:
        for done in [pool.submit(task) for task in tasks]:
            done.result()


def _run_in_turn(tasks: Sequence[Callable[[], object]]) -> None:
    errors = []
    for task in tasks:
        try:
            task()
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]
