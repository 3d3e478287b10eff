"""The parts of a broker, as put together by `assemble`."""

from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING

from ottla.base.timers import AllTimers, Timers
from ottla.base.values import dataclass
from ottla.broker.configs.cluster_state import ClusterState
from ottla.broker.configs.settings import BrokerSettings
from ottla.broker.fetching import FetchQuery, FetchResult
from ottla.broker.log_jobs.cleaner import Cleaner
from ottla.broker.log_jobs.jobs import Jobs
from ottla.broker.log_jobs.log_access import LogAccess
from ottla.broker.log_jobs.moves import Moves
from ottla.broker.log_jobs.retention import Retention
from ottla.broker.metadata.stored_state import StoredState
from ottla.broker.producer_ids import ProducerIds
from ottla.broker.security.security import Security
from ottla.broker.startup.opening import BrokerOptions
from ottla.broker.topics.removals import SegmentRemovals
from ottla.broker.topics.topic_store import TopicStore
from ottla.broker.topics.unconfirmed import Unconfirmed
from ottla.broker.waiting import WaitingRoom
from ottla.storage.directory.log_directories import LogDirectories

if TYPE_CHECKING:
    from ottla.broker.by_itself import OnlyReplicas
    from ottla.broker.metadata.log import MetadataLog, NoMetadataLog
    from ottla.broker.replicas import Replicas


@dataclass(frozen=True, slots=True)
class BrokerTimers:
    """All deadlines of a broker: `answers` of waiting clients, groups and transactions, `jobs` of
    work that no request waits for.
    """

    answers: AllTimers = field(default_factory=Timers)
    jobs: AllTimers = field(default_factory=Timers)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerParts:
    node_id: int
    cluster_id: str
    options: BrokerOptions
    settings: BrokerSettings
    directories: LogDirectories
    store: TopicStore
    cluster: StoredState[ClusterState]
    metadata: "MetadataLog | NoMetadataLog"
    unconfirmed: Unconfirmed
    producer_ids: ProducerIds
    allocate_producer_id: Callable[[], int]
    """Of a cluster, which `producer_ids` knows nothing of, or from `producer_ids`."""
    waiting: WaitingRoom[FetchQuery, FetchResult]
    log_access: LogAccess
    retention: Retention
    cleaner: Cleaner
    moves: Moves
    security: Security
    segment_removals: SegmentRemovals
    jobs: Jobs
    timers: BrokerTimers
    replicas: "Replicas | OnlyReplicas"
