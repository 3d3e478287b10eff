"""Composes a broker: every part gets its collaborators when it is created.

Parts are created in the order of their dependencies. The broker itself creates the parts that
depend on it: the coordinators and the admin requests.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ottla.base.errors import ApiError, StorageError, UserError
from ottla.base.files import FileSystem
from ottla.base.partitions import TopicPartition
from ottla.base.timers import AllTimers
from ottla.base.timestamps import Timestamps
from ottla.broker.adoption.found_metadata import IN_ZOOKEEPER, FoundMetadata, find_metadata
from ottla.broker.broker import Broker
from ottla.broker.by_itself import NoMembership, OnlyReplicas
from ottla.broker.configs.cluster_changes import cluster_changes
from ottla.broker.configs.settings import BrokerSettings
from ottla.broker.fetching import FetchQuery, FetchResult
from ottla.broker.log_jobs.cleaner import Cleaner
from ottla.broker.log_jobs.jobs import Jobs
from ottla.broker.log_jobs.log_access import LogAccess
from ottla.broker.log_jobs.moves import Moves
from ottla.broker.log_jobs.retention import Retention
from ottla.broker.log_jobs.schedule import schedule_log_jobs, schedule_replicas
from ottla.broker.metadata.log import LogOptions, MetadataLog, NoMetadataLog, SnapshotLimits
from ottla.broker.metadata.stored_state import StoredState
from ottla.broker.parts import BrokerParts, BrokerTimers
from ottla.broker.producer_ids import ClusterProducerIds, ProducerIds
from ottla.broker.security.security import Security
from ottla.broker.security.security_changes import SecurityChanges
from ottla.broker.security.security_state import SecurityState
from ottla.broker.startup.opening import BrokerOptions, check_paths, failing_paths, open_directories
from ottla.broker.topics.on_disk import OpenedDirectories, TopicConfigs
from ottla.broker.topics.removals import Removals, SegmentRemovals
from ottla.broker.topics.topic_records import TopicChanges, TopicRecords
from ottla.broker.topics.topic_store import TopicStore
from ottla.broker.topics.unconfirmed import Unconfirmed
from ottla.broker.waiting import WaitingRoom
from ottla.config.broker import BrokerConfig
from ottla.metadata.image import MetadataReplay
from ottla.metadata.records import ProducerIdsRecord
from ottla.storage.directory.log_directories import LogDirectories

if TYPE_CHECKING:
    from ottla.broker.replicas import Replicas
    from ottla.broker.replication.effects import BeforeEffect

logger = logging.getLogger(__name__)


def assemble(
    paths: Sequence[str], file_system: FileSystem, config: BrokerConfig, options: BrokerOptions
) -> Broker:
    """Opens (and repairs) log directories as one broker; raises `UserError`, `StorageError`."""
    check_paths(paths, file_system)
    failures = failing_paths(paths, file_system)
    found = _find(paths, list(failures), file_system, config, options)
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
    if not options.is_member:
        parts.unconfirmed.report()
    return Broker(parts, found.cluster.quotas, file_system.open_files)


def _find(
    paths: Sequence[str],
    offline: Sequence[str],
    file_system: FileSystem,
    config: BrokerConfig,
    options: BrokerOptions,
) -> FoundMetadata:
    """Finds the metadata; a member of a cluster with ZooKeeper has it from there."""
    if options.is_member:
        return FoundMetadata(path=None, reason=IN_ZOOKEEPER)
    wanted = config.metadata_log_dir
    found = find_metadata(
        [path for path in paths if path not in offline],
        file_system,
        offline=offline,
        wanted_path=wanted if wanted in paths else None,
    )
    is_open = config.has_authorizer and config.allow_everyone_if_no_acl_found
    if found.path is None and is_open:
        raise UserError(
            f"{found.reason}: without its ACLs every client might do everything, since "
            "allow.everyone.if.no.acl.found=true; repair the directory, or set it to false"
        )
    return found


def _metadata_log(
    opened: OpenedDirectories,
    disks: tuple[FileSystem, FoundMetadata],
    config: BrokerConfig,
    options: BrokerOptions,
) -> "MetadataLog | NoMetadataLog":
    if options.is_member:
        return NoMetadataLog()
    file_system, found = disks
    by_path = {one.path: one for one in opened.directories}
    log = MetadataLog(
        None if found.path is None else by_path[found.path],
        file_system,
        found.replay or MetadataReplay(),
        LogOptions(
            node_id=opened.node_id,
            now_ms=options.now_ms,
            refusal=found.refusal,
            limits=SnapshotLimits(
                bytes_between=config.metadata_log_max_record_bytes_between_snapshots,
                retention_bytes=config.metadata_max_retention_bytes,
            ),
        ),
    )
    if found.refusal_reason is not None:
        logger.error("%s; nothing can be changed before ottla adopt", found.refusal_reason)
    if found.was_torn:
        with suppress(StorageError):  # logged where the directory went offline
            log.repair()
    return log


def _make_parts(
    opened: OpenedDirectories,
    configs: TopicConfigs,
    settings: BrokerSettings,
    options: BrokerOptions,
    disks: tuple[FileSystem, FoundMetadata],
) -> BrokerParts:
    file_system, found = disks
    directories = LogDirectories(opened.directories, lambda path: settings.config.is_cordoned(path))
    metadata = _metadata_log(opened, disks, settings.config, options)

    def config() -> BrokerConfig:
        return settings.config

    unconfirmed = Unconfirmed([one.path for one in directories])
    access = LogAccess(unconfirmed, lambda one: store.is_held(one, settings.ignored_topic_settings))
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
        _topic_records(opened, metadata, unconfirmed),
    )
    store.load(opened)
    waiting: WaitingRoom[FetchQuery, FetchResult] = WaitingRoom(timers.answers)

    security = Security(_rules(found, metadata, options), settings.config)
    cluster = StoredState(found.cluster, metadata, cluster_changes(opened.node_id))
    moves = Moves(directories, access, store, file_system, config, timers.jobs)
    moves.resume(options.now_ms)
    jobs = Jobs(timers.jobs)
    schedule_log_jobs(jobs, directories, config, retention, _waking(store, waiting))
    _schedule_tokens(jobs, security, config)
    producer_ids = _producer_ids(opened, metadata)
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
        cluster=cluster,
        metadata=metadata,
        unconfirmed=unconfirmed,
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


def _waking(
    store: TopicStore, waiting: WaitingRoom[FetchQuery, FetchResult]
) -> Callable[[TopicPartition], None]:
    """Returns what is called when more of a log is checked, which fetches may wait for."""

    def more_is_checked(key: TopicPartition) -> None:
        with suppress(ApiError):  # nobody waits for a partition that is not served
            waiting.wake(store.topics.partition(*key))

    return more_is_checked


def _rules(
    found: FoundMetadata, log: "MetadataLog | NoMetadataLog", options: BrokerOptions
) -> StoredState[SecurityState]:
    image = (found.replay or MetadataReplay()).image()
    changes = SecurityChanges(image, options.new_id, lambda: log.level)
    return StoredState(found.security, log, changes)


def _topic_records(
    opened: OpenedDirectories, log: "MetadataLog | NoMetadataLog", unconfirmed: Unconfirmed
) -> TopicRecords:
    ids = [one.directory_id for one in opened.directories]
    changes = TopicChanges(opened.node_id, ids[0] if len(ids) == 1 else None)
    return TopicRecords(log, changes, unconfirmed)


def _producer_ids(opened: OpenedDirectories, log: "MetadataLog | NoMetadataLog") -> ProducerIds:
    def reserve(end: int) -> None:
        record = ProducerIdsRecord(broker_id=opened.node_id, broker_epoch=-1, next_producer_id=end)
        log.commit([(record, 0)])

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
