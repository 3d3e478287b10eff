"""Composes a broker: every part gets its collaborators when it is created.

Parts are created in the order of their dependencies. The broker itself creates the parts that
depend on it: the coordinators and the admin requests.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ottla.base.errors import ApiError, StorageError
from ottla.base.files import FileSystem
from ottla.base.partitions import TopicPartition
from ottla.base.timers import AllTimers
from ottla.base.timestamps import Timestamps
from ottla.broker.adoption.adoption_store import AdoptionStore
from ottla.broker.adoption.foreign_settings import find_settings
from ottla.broker.adoption.found_settings import FoundSettings
from ottla.broker.broker import Broker
from ottla.broker.by_itself import NoMembership, OnlyReplicas
from ottla.broker.configs.cluster_file import CLUSTER_FILE
from ottla.broker.configs.settings import BrokerSettings
from ottla.broker.fetching import FetchQuery, FetchResult
from ottla.broker.log_jobs.cleaner import Cleaner
from ottla.broker.log_jobs.jobs import Jobs
from ottla.broker.log_jobs.log_access import LogAccess
from ottla.broker.log_jobs.moves import Moves
from ottla.broker.log_jobs.retention import Retention
from ottla.broker.log_jobs.schedule import schedule_log_jobs, schedule_replicas
from ottla.broker.parts import BrokerParts, BrokerTimers
from ottla.broker.producer_ids import ClusterProducerIds, ProducerIds, reserve_producer_ids
from ottla.broker.revised_state import StateStore
from ottla.broker.security.security import Security
from ottla.broker.startup.opening import BrokerOptions, check_paths, failing_paths, open_directories
from ottla.broker.topics.on_disk import OpenedDirectories, TopicConfigs
from ottla.broker.topics.removals import Removals, SegmentRemovals
from ottla.broker.topics.topic_store import TopicStore
from ottla.broker.waiting import WaitingRoom
from ottla.config.broker import BrokerConfig
from ottla.storage.directory.log_directories import LogDirectories
from ottla.storage.files.written_marks import mark_all_written

if TYPE_CHECKING:
    from ottla.broker.replicas import Replicas
    from ottla.broker.replication.effects import BeforeEffect


def assemble(
    paths: Sequence[str], file_system: FileSystem, config: BrokerConfig, options: BrokerOptions
) -> Broker:
    """Opens (and repairs) log directories as one broker; raises `UserError`, `StorageError`."""
    check_paths(paths, file_system)
    failures = failing_paths(paths, file_system)
    readable = [path for path in paths if path not in failures]
    found = find_settings(readable, file_system)
    settings = BrokerSettings(config.given, found.cluster)
    defaults = settings.config.topic_defaults
    opened, configs = open_directories(
        paths,
        file_system,
        options.with_node_id(config.wanted_node_id),
        lambda entries: TopicConfigs(defaults, entries),
        found,
    )
    node_id = str(opened.node_id)
    settings.complete({"broker.id": node_id, "node.id": node_id, "log.dirs": ",".join(paths)})
    parts = _make_parts(opened, configs, settings, options, (file_system, found))
    _take_over(parts, found)
    with suppress(StorageError):  # logged when the directory went offline
        parts.directories.write_in_each(lambda path: mark_all_written(file_system, path))
    return Broker(parts, found.cluster.quotas, file_system.open_files)


def _make_parts(
    opened: OpenedDirectories,
    configs: TopicConfigs,
    settings: BrokerSettings,
    options: BrokerOptions,
    disks: tuple[FileSystem, FoundSettings],
) -> BrokerParts:
    file_system, found = disks
    directories = LogDirectories(opened.directories, lambda path: settings.config.is_cordoned(path))

    def config() -> BrokerConfig:
        return settings.config

    adoption = AdoptionStore(found, directories, file_system)
    access = LogAccess(adoption, lambda one: store.is_held(one, settings.ignored_topic_settings))
    timers = BrokerTimers()
    segment_removals = SegmentRemovals(timers.jobs)
    retention = Retention(directories, access, segment_removals, options.on_event)
    cleaner = Cleaner(directories, access, file_system, config, segment_removals, options.on_event)

    store = TopicStore(
        directories,
        file_system,
        configs,
        options.new_id,
        _removals(timers.jobs, access, cleaner),
        has_all_partitions=not options.is_member,
    )
    store.load(opened)
    waiting: WaitingRoom[FetchQuery, FetchResult] = WaitingRoom(timers.answers)

    def more_is_checked(key: TopicPartition) -> None:
        with suppress(ApiError):  # nobody waits for a partition that is not served
            waiting.wake(store.topics.partition(*key))

    security = Security(found.security, directories, file_system, settings.config)
    moves = Moves(directories, access, store, file_system, config, timers.jobs)
    moves.resume(options.now_ms)
    jobs = Jobs(timers.jobs)
    schedule_log_jobs(jobs, directories, config, retention, more_is_checked)
    _schedule_tokens(jobs, security, config)
    producer_ids = _producer_ids(opened, directories, file_system)
    replicas: Replicas | OnlyReplicas = OnlyReplicas()
    if options.is_member:
        schedule_replicas(jobs, directories, config)
        heard = options.before_effect
        replicas = _replicas(opened.node_id, store, settings, waiting, timers.answers, heard)
    return BrokerParts(
        node_id=opened.node_id,
        cluster_id=opened.cluster_id,
        options=options,
        settings=settings,
        directories=directories,
        store=store,
        cluster=StateStore(CLUSTER_FILE, found.cluster, directories, file_system),
        adoption=adoption,
        producer_ids=producer_ids,
        allocate_producer_id=_allocation(producer_ids, options),
        waiting=waiting,
        log_access=access,
        retention=retention,
        cleaner=cleaner,
        moves=moves,
        security=security,
        segment_removals=segment_removals,
        jobs=jobs,
        timers=timers,
        replicas=replicas,
    )


def _producer_ids(
    opened: OpenedDirectories, directories: LogDirectories, file_system: FileSystem
) -> ProducerIds:
    def reserve(end: int) -> None:
        reserve_producer_ids(file_system, directories, end)

    return ProducerIds(opened.next_producer_id, reserve)


def _allocation(own: ProducerIds, options: BrokerOptions) -> Callable[[], int]:
    membership = options.membership
    if isinstance(membership, NoMembership):
        return own.allocate
    return ClusterProducerIds(membership.allocate_producer_ids).allocate


def _removals(timers: AllTimers, access: LogAccess, cleaner: Cleaner) -> Removals:
    def before_delete(key: TopicPartition) -> None:
        access.begin_deletion(key)
        cleaner.forget(key)

    return Removals(timers, before_delete)


def _replicas(
    node_id: int,
    store: TopicStore,
    settings: BrokerSettings,
    waiting: WaitingRoom[FetchQuery, FetchResult],
    timers: AllTimers,
    before_effect: "BeforeEffect | None",
) -> "Replicas":
    # A broker without a cluster does not need these modules.
    from ottla.broker.replicas import Replicas
    from ottla.broker.replication.replica_manager import ReplicaOptions
    from ottla.config.inter_broker_version import parse_inter_broker_version

    config = settings.config
    version = parse_inter_broker_version(config.inter_broker_protocol_version)
    options = ReplicaOptions(
        broker_id=node_id,
        lag_time_max_ms=config.replica_lag_time_max_ms,
        truncates_on_fetch=version.truncates_on_fetch,
    )
    return Replicas(options, store, lambda: settings.config, waiting, timers, before_effect)


def _schedule_tokens(jobs: Jobs, security: Security, config: Callable[[], BrokerConfig]) -> None:
    def expire_tokens(at: Timestamps) -> None:
        with suppress(ApiError):  # no disk accepts the change: expired tokens are unusable anyway
            security.drop_expired_tokens(at.now_ms)

    if config().token_secret:
        jobs.add(lambda: config().delegation_token_expiry_check_interval_ms, expire_tokens)


def _take_over(parts: BrokerParts, found: FoundSettings) -> None:
    """Writes the imported state, and finally the record of the import; a start after a crash
    repeats it.
    """
    unknown = {
        topic.name: reason
        for topic in parts.store.topics
        if (reason := found.why_unknown(topic.name, topic.topic_id)) is not None
    }
    with suppress(StorageError):  # logged where the directory went offline
        if found.is_import:
            parts.store.files.write()
            parts.cluster.replace(found.cluster)
            if not found.security.is_empty:
                parts.security.save()
            parts.producer_ids.reserve_below(found.next_producer_id)
        parts.adoption.take_over(found, unknown)
