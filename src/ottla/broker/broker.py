"""The broker without a wire protocol: its parts, which callers name.

Everything is synchronous and for one thread at a time; a caller with several threads holds a lock.
Errors are `ApiError` with the code for the client. Kafka's counterparts: `BrokerServer`, and the
parts of the controller that a single broker needs.
"""

import logging
from collections.abc import Hashable, Iterable
from contextlib import suppress
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import StorageError
from ottla.base.events import OnEvent
from ottla.base.open_files import OpenFiles
from ottla.base.partitions import TopicPartition
from ottla.base.timestamps import Timestamps
from ottla.base.turns import Budget
from ottla.base.values import dataclass
from ottla.broker.admin import Admin
from ottla.broker.configs.settings import BrokerSettings
from ottla.broker.coordination.producer_ids import ProducerIdSource
from ottla.broker.log_jobs.log_jobs import LogJobs
from ottla.broker.metadata.image_store import ImageStore
from ottla.broker.metadata.log import MetadataLog, NoMetadataLog
from ottla.broker.quotas.client_quotas import ClientQuotas
from ottla.broker.quotas.throttled_clients import ThrottledClients
from ottla.broker.records.answers import Answers
from ottla.broker.records.appends import Appends
from ottla.broker.records.fetches import Fetches
from ottla.broker.scheduler import Scheduler
from ottla.broker.security.security import Security
from ottla.broker.startup.opening import BrokerOptions
from ottla.broker.topics.auto_creation import AutoCreation
from ottla.broker.topics.topic_changes import TopicChanges
from ottla.broker.topics.topic_store import TopicStore
from ottla.broker.topics.topics import Topics
from ottla.broker.topics.unconfirmed import Unconfirmed
from ottla.coordinator.catalog import TopicCatalog
from ottla.storage.directory.log_directories import LogDirectories

if TYPE_CHECKING:
    from ottla.broker.control.controller import Controller
    from ottla.broker.groups.coordinator import GroupCoordinator
    from ottla.broker.groups.end_offsets import EndOffsets
    from ottla.broker.groups.share_groups import ShareGroups
    from ottla.broker.membership.by_itself import NoMembership
    from ottla.broker.membership.membership import AnyMembership
    from ottla.broker.records.fetch_sessions import FetchSessions
    from ottla.broker.replicas.only_replicas import OnlyReplicas
    from ottla.broker.replicas.replicas import Replicas
    from ottla.broker.shares.coordinator import ShareCoordinator
    from ottla.broker.shares.persister import Persister
    from ottla.broker.shares.shares import Shares
    from ottla.broker.tiering.remote_logs import RemoteLogs
    from ottla.broker.transactions.coordinator import TransactionCoordinator
    from ottla.metadata.cluster_view import ClusterView

logger = logging.getLogger(__name__)


class Catalog(TopicCatalog, Protocol):
    """The existing topics, as handlers of groups and transactions use them."""

    def name_by_id(self, topic_id: bytes) -> str | None: ...

    def has_partition(self, partition: TopicPartition) -> bool: ...


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Broker:
    """Created by `assemble`."""

    node_id: int
    cluster_id: str
    options: BrokerOptions
    on_event: OnEvent
    budget: Budget
    open_files: OpenFiles
    settings: BrokerSettings
    directories: LogDirectories
    topics: Topics
    """Those with a replica on this broker."""
    topic_store: TopicStore
    topic_changes: TopicChanges
    metadata: "MetadataLog | NoMetadataLog"
    image_store: ImageStore
    """The image that the other parts ask."""
    unconfirmed: Unconfirmed
    security: Security
    quotas: ClientQuotas
    throttled_clients: ThrottledClients
    auto_creation: AutoCreation
    producer_ids: ProducerIdSource
    appends: Appends
    fetches: Fetches
    answers: Answers
    scheduler: Scheduler
    log_jobs: LogJobs
    replicas: "Replicas | OnlyReplicas"
    membership: "AnyMembership | NoMembership"
    catalog: Catalog
    """All topics; in a cluster also those without a replica on this broker."""
    remote_logs: "RemoteLogs | None" = field(default=None, init=False)
    """`None` without a remote tier."""
    admin: Admin = field(init=False)
    _groups: "GroupCoordinator | None" = field(default=None, init=False)
    _transactions: "TransactionCoordinator | None" = field(default=None, init=False)
    _share_coordinator: "ShareCoordinator | None" = field(default=None, init=False)
    _share_persister: "Persister | None" = field(default=None, init=False)
    _share_groups: "ShareGroups | None" = field(default=None, init=False)
    _end_offsets: "EndOffsets | None" = field(default=None, init=False)
    _controller: "Controller | None" = field(default=None, init=False)
    _view: "ClusterView | None" = field(default=None, init=False)
    _fetch_sessions: "FetchSessions | None" = field(default=None, init=False)
    _shares: "Shares | None" = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.admin = Admin(self, self.image_store)

    @property
    def groups(self) -> "GroupCoordinator":
        """Created, and its modules imported, on first use: embedded logs and commands rarely need
        groups.
        """
        if self._groups is None:
            from ottla.broker.groups.coordinator import GroupCoordinator

            self._groups = GroupCoordinator(
                self,
                self.settings.config,
                self.options.new_id,
                self.settings.groups.of,
                self.answers.timers,
            )
            self.answers.sources.append(self._groups)
            self.answers.timed.append(self._groups)
        return self._groups

    @property
    def transactions(self) -> "TransactionCoordinator":
        """Created like `groups`."""
        if self._transactions is None:
            from ottla.broker.transactions.coordinator import TransactionCoordinator

            self._transactions = TransactionCoordinator(
                self,
                self.groups,
                self.settings.config,
                must_verify=lambda: self.settings.config.transaction_partition_verification_enable,
                timers=self.answers.timers,
            )
            self.answers.timed.append(self._transactions)
            self.appends.carry_out_after_writing(self._transactions)
        return self._transactions

    @property
    def share_coordinator(self) -> "ShareCoordinator":
        """Created like `groups`."""
        if self._share_coordinator is None:
            from ottla.broker.shares.coordinator import ShareCoordinator

            self._share_coordinator = ShareCoordinator(
                self, self.settings.config, self.answers.timers, self.groups.queue_answer
            )
            self.answers.timed.append(self._share_coordinator)
        return self._share_coordinator

    @property
    def share_persister(self) -> "Persister":
        """Created like `groups`."""
        if self._share_persister is None:
            from ottla.broker.shares.persister import Persister

            self._share_persister = Persister(
                self, self.share_coordinator, self.answers.timers, self.groups.queue_answer
            )
            self.answers.timed.append(self._share_persister)
        return self._share_persister

    @property
    def share_groups(self) -> "ShareGroups":
        """Created like `groups`."""
        if self._share_groups is None:
            from ottla.broker.groups.share_groups import ShareGroups

            self._share_groups = ShareGroups(self.groups, lambda: self.share_persister, self.budget)
        return self._share_groups

    @property
    def has_share_groups(self) -> bool:
        """Whether they were asked for since the start."""
        return self._share_groups is not None

    @property
    def has_shares(self) -> bool:
        """Whether members have fetched since the start."""
        return self._shares is not None

    @property
    def end_offsets(self) -> "EndOffsets":
        """Created like `groups`."""
        if self._end_offsets is None:
            from ottla.broker.groups.end_offsets import EndOffsets

            self._end_offsets = EndOffsets(self, self.groups.queue_answer)
        return self._end_offsets

    @property
    def view(self) -> "ClusterView":
        """Created like `groups`."""
        if self._view is None:
            from ottla.broker.control.choosing import view_for

            self._view = view_for(self)
        return self._view

    @property
    def controller(self) -> "Controller":
        """Created like `groups`."""
        if self._controller is None:
            from ottla.broker.control.choosing import controller_for

            self._controller = controller_for(self)
        return self._controller

    @property
    def fetch_sessions(self) -> "FetchSessions":
        """Created like `groups`."""
        if self._fetch_sessions is None:
            from ottla.broker.records.fetch_sessions import MAX_ID, FetchSessions

            config = self.settings.config
            self._fetch_sessions = FetchSessions(
                config.max_incremental_fetch_session_cache_slots,
                new_id=lambda: 1 + self.options.random_below(MAX_ID),
                max_partition_count=config.max_incremental_fetch_session_cache_partitions,
            )
        return self._fetch_sessions

    @property
    def shares(self) -> "Shares":
        """Created like `groups`."""
        if self._shares is None:
            from ottla.broker.replicas.only_replicas import OnlyReplicas
            from ottla.broker.shares.led_partitions import LedPartitions
            from ottla.broker.shares.settings import share_settings
            from ottla.broker.shares.shares import Shares

            settings_of = partial(share_settings, self.settings, lambda: self.view)
            led = LedPartitions(self, settings_of, self.answers.timers)
            self._shares = Shares(led, self.settings.config.group_share_max_share_sessions)
            self.answers.timed.append(self._shares)
            if not isinstance(self.replicas, OnlyReplicas):
                self.replicas.listeners.append(led)
        return self._shares

    def dead_letters_answered(self, number: int, error: ErrorCode | None, at: Timestamps) -> None:
        """Another broker has answered dead letters that were sent to it."""
        self.shares.led.dead_letters.answered(number, error, at)

    def topics_deleted(self, names: Iterable[str]) -> None:
        """Has groups forget topics that are gone."""
        gone = list(names)
        self.groups.topics_deleted(gone)
        if self._shares is not None:
            self._shares.led.topics_deleted(gone)

    def stop_shares(self) -> None:
        """Forgets who fetches in share groups: the cluster has none any more."""
        if self._shares is not None:
            self._shares.stop()

    def disconnected(self, connection: Hashable, at: Timestamps) -> None:
        """Ends what a connection had that is closed."""
        if self._shares is not None:
            self._shares.disconnected(connection, at)

    def close(self) -> None:
        """Flushes and closes everything; the next start needs no recovery."""
        try:
            self.appends.write_out()
        except StorageError:
            logger.error("closing with a directory offline; the next start recovers it")
        with suppress(StorageError):  # logged when the directory went offline
            self.metadata.close(self.image_store.image)
        self.log_jobs.segment_removals.close()
        self.options.run_directories([directory.close for directory in self.directories])
        self.topic_store.removals.close()
