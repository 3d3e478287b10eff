"""Composes a broker: every part gets its collaborators when it is created.

Parts are created in the order of their dependencies. The broker itself creates the parts that
depend on many others: the coordinators and the admin requests.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING

from ottla.base.errors import ApiError, CorruptionError, StorageError, UserError
from ottla.base.files import FileSystem, join
from ottla.base.partitions import TopicPartition
from ottla.base.timers import AllTimers, Timers
from ottla.base.timestamps import Timestamps
from ottla.base.turns import Budget
from ottla.base.values import dataclass
from ottla.broker.adoption.found_metadata import (
    IN_QUORUM,
    IN_ZOOKEEPER,
    FoundMetadata,
    check_known,
    find_metadata,
)
from ottla.broker.broker import Broker
from ottla.broker.configs.settings import BrokerSettings
from ottla.broker.coordination.producer_ids import ClusterProducerIds, ProducerIds, ProducerIdSource
from ottla.broker.log_jobs.cleaner import Cleaner
from ottla.broker.log_jobs.flushes import Flushes
from ottla.broker.log_jobs.jobs import Jobs
from ottla.broker.log_jobs.log_access import LogAccess
from ottla.broker.log_jobs.log_jobs import LogJobs
from ottla.broker.log_jobs.moves import Moves
from ottla.broker.log_jobs.retention import Retention
from ottla.broker.log_jobs.schedule import schedule_log_jobs, schedule_replicas
from ottla.broker.membership.by_itself import NoMembership
from ottla.broker.metadata.image_store import ImageStore
from ottla.broker.metadata.log import (
    RELEASE_LEVEL,
    LogOptions,
    MetadataLog,
    NoMetadataLog,
    SnapshotLimits,
)
from ottla.broker.quotas.client_quotas import ClientQuotas
from ottla.broker.quotas.throttled_clients import ThrottledClients
from ottla.broker.records.answers import Answers
from ottla.broker.records.appends import Appends
from ottla.broker.records.fetches import Fetches
from ottla.broker.replicas.only_replicas import OnlyReplicas
from ottla.broker.scheduler import Scheduler
from ottla.broker.security.security import Security
from ottla.broker.startup.opening import BrokerOptions, check_paths, failing_paths, open_directories
from ottla.broker.topics.auto_creation import AutoCreation
from ottla.broker.topics.on_disk import OpenedDirectories, TopicConfigs
from ottla.broker.topics.removals import Removals, SegmentRemovals
from ottla.broker.topics.topic_changes import TopicChanges
from ottla.broker.topics.topic_store import TopicStore
from ottla.broker.topics.unconfirmed import Unconfirmed, tierless_line
from ottla.broker.waiting.fetch_queries import FetchQuery, FetchResult
from ottla.broker.waiting.rooms import WaitingRoom
from ottla.config.broker import BrokerConfig
from ottla.metadata.brokers import BrokerRegistration
from ottla.metadata.image import METADATA_VERSION, MetadataImage
from ottla.metadata.quotas import Quotas
from ottla.storage.directory.log_directories import LogDirectories
from ottla.storage.files.filenames import CLUSTER_METADATA_DIRECTORY

if TYPE_CHECKING:
    from ottla.broker.records.tier_reads import TierReads
    from ottla.broker.replicas.replicas import Replicas
    from ottla.broker.tiering.remote_logs import RemoteLogs

logger = logging.getLogger(__name__)

METADATA_INTERVAL_MS = 500
"""How often new records of a tier's metadata are looked for; own ones are applied at once."""


@dataclass(frozen=True, slots=True)
class BrokerTimers:
    """All deadlines of a broker: `answers` of waiting clients, groups and transactions, `jobs` of
    work that no request waits for.
    """

    answers: AllTimers = field(default_factory=Timers)
    jobs: AllTimers = field(default_factory=Timers)


def assemble(
    paths: Sequence[str], file_system: FileSystem, config: BrokerConfig, options: BrokerOptions
) -> Broker:
    """Opens (and repairs) log directories as one broker; raises `UserError`, `StorageError`."""
    check_paths(paths, file_system)
    failures = failing_paths(paths, file_system)
    found = _find(paths, list(failures), file_system, config, options)
    settings = BrokerSettings(config.given, found.image, found.node_id)
    defaults = settings.config.topic_defaults
    opened, configs = open_directories(
        paths,
        file_system,
        options.with_node_id(config.wanted_node_id),
        lambda entries: TopicConfigs(
            defaults, entries if options.quorum is None else found.image.topics
        ),
        found,
    )
    node_id = str(opened.node_id)
    settings.complete({"broker.id": node_id, "node.id": node_id, "log.dirs": ",".join(paths)})
    broker = _make(opened, configs, settings, options, (file_system, found))
    if not options.is_member:
        broker.unconfirmed.report()
    tiered = [one.name for one in broker.topics if one.config.remote_storage_enable]
    if tiered and not settings.config.remote_log_storage_system_enable:
        logger.error("%s", tierless_line(tiered))
    return broker


def _find(
    paths: Sequence[str],
    offline: Sequence[str],
    file_system: FileSystem,
    config: BrokerConfig,
    options: BrokerOptions,
) -> FoundMetadata:
    """Finds the metadata; a member of a cluster has it from the quorum's log, or ZooKeeper."""
    if options.quorum is not None:
        image, node_id = options.quorum.image, config.wanted_node_id
        check_known(image, CLUSTER_METADATA_DIRECTORY)
        node_id = options.node_id if node_id is None else node_id
        return FoundMetadata(path=None, reason=IN_QUORUM, image=image, node_id=node_id)
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
        found.log,
        LogOptions(
            node_id=opened.node_id,
            now_ms=options.now_ms,
            refusal=found.refusal,
            limits=SnapshotLimits.of(config),
        ),
    )
    if found.refusal_reason is not None:
        logger.error("%s; nothing can be changed before ottla adopt", found.refusal_reason)
    if found.was_torn:
        with suppress(StorageError):  # logged where the directory went offline
            log.repair()
    return log


def _make(
    opened: OpenedDirectories,
    configs: TopicConfigs,
    settings: BrokerSettings,
    options: BrokerOptions,
    disks: tuple[FileSystem, FoundMetadata],
) -> Broker:
    file_system, found = disks
    open_files = file_system.open_files
    timers = BrokerTimers()
    metadata = _metadata_log(opened, disks, settings.config, options)
    image = ImageStore(_first_image(opened.node_id, found, settings.config, options), metadata)
    files = (file_system, image)
    changes, log_jobs = _make_logs(opened, configs, settings, options, files, timers.jobs)
    store = changes.store
    waiting: WaitingRoom[FetchQuery, FetchResult] = WaitingRoom(timers.answers)
    security = Security(image, settings.config, options.new_id)
    if options.quorum is not None:
        security.await_rules()
    waits = (waiting, timers.answers)
    replicas = _replicas(opened.node_id, store, image, settings, options, waits)
    appends = Appends(open_files, waiting)
    fetches = Fetches(store.topics, replicas, settings, open_files, waiting)
    throttled_clients = ThrottledClients(timers.answers)
    budget = Budget()
    answers = Answers(timers.answers, fetches, throttled_clients, budget)
    answers.sources.append(appends)
    answers.timed.append(metadata)
    broker = Broker(
        node_id=opened.node_id,
        cluster_id=opened.cluster_id,
        options=options,
        on_event=options.on_event,
        budget=budget,
        open_files=open_files,
        settings=settings,
        directories=store.directories,
        topics=store.topics,
        topic_store=store,
        topic_changes=changes,
        metadata=metadata,
        image_store=image,
        unconfirmed=store.unconfirmed,
        security=security,
        quotas=_quotas(found.image.quotas, settings.config),
        throttled_clients=throttled_clients,
        auto_creation=AutoCreation(lambda: settings.config),
        producer_ids=_producer_ids(opened, metadata, options),
        appends=appends,
        fetches=fetches,
        answers=answers,
        scheduler=Scheduler(
            timers=timers.jobs,
            answers=answers,
            store=store,
            log_jobs=log_jobs,
            metadata=metadata,
            open_files=open_files,
        ),
        log_jobs=log_jobs,
        replicas=replicas,
        membership=options.membership,
        catalog=replicas.topics,
    )
    if settings.config.remote_log_storage_system_enable:
        broker.remote_logs = _remote_logs(broker, file_system)
        broker.fetches.tier = _tier_reads(broker, broker.remote_logs, file_system)
    _schedule(broker)
    _join_cluster(broker)
    return broker


def _remote_logs(broker: Broker, file_system: FileSystem) -> "RemoteLogs":
    """Raises `UserError` if the settings name no tier."""
    # Lazy: most brokers have no tier.
    from ottla.broker.tiering.remote_log_metadata import RemoteLogMetadata
    from ottla.broker.tiering.remote_logs import RemoteLogs, open_remote_storage
    from ottla.broker.tiering.tier import Tier
    from ottla.broker.tiering.tier_jobs import TierJobs
    from ottla.config.tiering import metadata_topic_config

    config, options = broker.settings.config, broker.options
    open_storage = options.open_remote_storage or partial(
        open_remote_storage, clock=options.waiting_clock
    )
    tier = Tier(
        open_storage(config, file_system),
        RemoteLogMetadata(broker, metadata_topic_config(config)),
        file_system,
        lambda: broker.settings.config,
        (broker.node_id, options.new_id),
    )
    remote_logs = RemoteLogs(tier, TierJobs(tier, broker.topics, options.random_below))
    broker.topic_changes.before_deletion = remote_logs.topics_go
    _build_followers(broker, remote_logs)
    return remote_logs


def _build_followers(broker: Broker, remote_logs: "RemoteLogs") -> None:
    """Has the replicas of a member begin with what the tier has."""
    replicas = broker.replicas
    if isinstance(replicas, OnlyReplicas):
        return
    from ottla.broker.replication.effects import BuildFromTier
    from ottla.broker.tiering.building import Build
    from ottla.broker.tiering.deleted_partitions import DeletedPartitions

    def build(wanted: BuildFromTier) -> None:
        topic = broker.topics.get(wanted.partition.topic)
        remote_logs.build(
            Build(
                wanted=wanted,
                partition=topic.partition(wanted.partition.partition),
                topic_id=topic.topic_id,
                is_wanted=lambda: replicas.manager.is_building(
                    wanted.partition, wanted.leader_epoch
                ),
                done=lambda: replicas.built(wanted),
            )
        )

    replicas.build_from_tier = build
    replicas.listeners.append(DeletedPartitions(broker.topics, replicas.topics, remote_logs))


def _tier_reads(broker: Broker, remote_logs: "RemoteLogs", file_system: FileSystem) -> "TierReads":
    from ottla.broker.records.tier_reads import TierReads
    from ottla.storage.files.filenames import REMOTE_INDEX_CACHE
    from ottla.storage.remote.index_cache import IndexCache
    from ottla.storage.remote.segment_reading import SegmentReading

    indexes = IndexCache(
        remote_logs.storage,
        file_system,
        join(broker.directories[0].path, REMOTE_INDEX_CACHE),
        lambda: broker.settings.config,
    )
    reading = SegmentReading(remote_logs.storage, indexes)
    reads = TierReads(remote_logs, reading, lambda: broker.settings.config)
    remote_logs.metadata.on_ready = reads.list_is_read
    return reads


def _join_cluster(broker: Broker) -> None:
    """Has replicas hear of logs that are gone, and those of a member tell its coordinators what
    they lead, and answer clients.
    """
    membership, replicas = broker.membership, broker.replicas
    for directory in broker.directories:
        directory.on_gone = replicas.gone
    if isinstance(membership, NoMembership) or isinstance(replicas, OnlyReplicas):
        return
    from ottla.broker.coordinators import Coordinators

    broker.answers.sources += [membership, replicas]
    broker.answers.timed.append(replicas)
    broker.log_jobs.cleaner.damaged = replicas.cannot_compact
    replicas.listeners.append(
        Coordinators(broker.groups, broker.transactions, broker.share_coordinator)
    )


def _first_image(
    node_id: int, found: FoundMetadata, config: BrokerConfig, options: BrokerOptions
) -> MetadataImage:
    """What the log holds, but for topics that other brokers have. A broker that is in no cluster is
    its own controller and voter, whatever other nodes are in its log.
    """
    known = found.image
    if options.is_member:
        return known
    topics = {name: known.topics[name] for name in found.known.entries}
    itself = BrokerRegistration(endpoints=(), rack=config.broker_rack)
    return replace(
        known,
        topics=topics,
        topic_names={one.topic_id: name for name, one in topics.items()},
        removed=frozenset(),
        brokers={node_id: itself},
        controller=node_id,
        voters=frozenset({node_id}),
        features={METADATA_VERSION: RELEASE_LEVEL, **known.features},
    )


def _make_logs(
    opened: OpenedDirectories,
    configs: TopicConfigs,
    settings: BrokerSettings,
    options: BrokerOptions,
    files: tuple[FileSystem, ImageStore],
    timers: AllTimers,
) -> tuple[TopicChanges, LogJobs]:
    file_system, image = files
    directories = LogDirectories(opened.directories, lambda path: settings.config.is_cordoned(path))

    def config() -> BrokerConfig:
        return settings.config

    unconfirmed = Unconfirmed([one.path for one in opened.directories])
    access = LogAccess(unconfirmed, lambda one: store.is_held(one, settings.ignored_topic_settings))
    removals = SegmentRemovals(timers)
    retention = Retention(directories, access, removals, options.on_event)
    cleaner = Cleaner(directories, access, file_system, config, removals, options.on_event)

    removed = _removals(timers, access, cleaner)
    store = TopicStore(directories, file_system, configs, removed, image, unconfirmed)
    store.load(opened)
    ids = [one.directory_id for one in opened.directories]
    directory_id = ids[0] if len(ids) == 1 else None
    changes = TopicChanges(opened.node_id, directory_id, image, store, options.new_id)
    changes.reconcile(opened)
    moves = Moves(directories, access, store, file_system, config, timers)
    moves.resume(options.now_ms)
    jobs = LogJobs(
        access=access,
        retention=retention,
        cleaner=cleaner,
        moves=moves,
        flushes=Flushes(directories, moves, file_system.open_files),
        segment_removals=removals,
        periodic=Jobs(timers),
    )
    return changes, jobs


def _producer_ids(
    opened: OpenedDirectories, log: "MetadataLog | NoMetadataLog", options: BrokerOptions
) -> ProducerIdSource:
    membership = options.membership
    if not isinstance(membership, NoMembership):
        return ClusterProducerIds(membership.allocate_producer_ids)

    def reserve(end: int) -> None:
        from ottla.metadata.records import ProducerIdsRecord  # Lazy, as in `MetadataLog`.

        record = ProducerIdsRecord(broker_id=opened.node_id, broker_epoch=-1, next_producer_id=end)
        log.commit([(record, 0)])

    return ProducerIds(opened.next_producer_id, reserve)


def _quotas(quotas: Quotas, config: BrokerConfig) -> ClientQuotas:
    limits = ClientQuotas(config.quota_window_num, config.quota_window_size_seconds * 1000)
    limits.change(quotas)
    return limits


def _removals(timers: AllTimers, access: LogAccess, cleaner: Cleaner) -> Removals:
    def before_delete(key: TopicPartition) -> None:
        access.begin_deletion(key)
        cleaner.forget(key)

    return Removals(timers, before_delete)


def _replicas(
    node_id: int,
    store: TopicStore,
    image: ImageStore,
    settings: BrokerSettings,
    options: BrokerOptions,
    waits: tuple[WaitingRoom[FetchQuery, FetchResult], AllTimers],
) -> "Replicas | OnlyReplicas":
    if not options.is_member:
        return OnlyReplicas(image)
    # A broker without a cluster does not need these modules.
    from ottla.broker.replicas.replicas import Replicas
    from ottla.broker.replication.replica_manager import ReplicaOptions
    from ottla.config.inter_broker_version import parse_inter_broker_version

    config = settings.config
    version = parse_inter_broker_version(config.inter_broker_protocol_version)
    replica_options = ReplicaOptions(
        broker_id=node_id,
        lag_time_max_ms=config.replica_lag_time_max_ms,
        truncates_on_fetch=version.truncates_on_fetch or options.quorum is not None,
        starts_after_tier=lambda: (
            settings.config.remote_log_storage_system_enable
            and settings.config.follower_fetch_last_tiered_offset_enable
        ),
    )
    heard = options.before_effect
    return Replicas(replica_options, store, image, lambda: settings.config, waits, heard)


def _schedule(broker: Broker) -> None:
    jobs, directories, security = broker.log_jobs.periodic, broker.directories, broker.security

    def config() -> BrokerConfig:
        return broker.settings.config

    def more_is_checked(key: TopicPartition) -> None:
        """Wakes the fetches that may wait for it, when more of a log is checked."""
        with suppress(ApiError):  # nobody waits for a partition that is not served
            broker.fetches.waiting.wake(broker.topics.partition(*key))

    def expire_tokens(at: Timestamps) -> None:
        with suppress(ApiError):  # no disk accepts the change: expired tokens are unusable anyway
            security.drop_expired_tokens(at.now_ms)

    def is_damaged(key: TopicPartition, damage: CorruptionError) -> None:
        with suppress(ApiError):  # as when it is not served any more
            broker.topics.partition(*key).damaged(damage, "read")

    retention = broker.log_jobs.retention
    schedule_log_jobs(jobs, directories, config, retention, more_is_checked, is_damaged)
    if config().token_secret and broker.options.quorum is None:
        jobs.add(lambda: config().delegation_token_expiry_check_interval_ms, expire_tokens)
    if broker.remote_logs is not None:
        advance = broker.remote_logs.metadata.advance
        jobs.add(lambda: METADATA_INTERVAL_MS, advance, initial_ms=lambda: 0)
    if broker.options.is_member:
        schedule_replicas(jobs, directories, config)
