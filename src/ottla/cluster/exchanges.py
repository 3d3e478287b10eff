"""What a member of any cluster exchanges with other brokers: the records that it follows, and
requests of its coordinators and leaders.
"""

from collections.abc import Callable

from ottla.base.clock import Clock
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.broker.broker import Broker
from ottla.broker.replicas.replicas import Replicas
from ottla.broker.topics.partition import Partition
from ottla.cluster.admission_channels import AdmissionChannels, admission_channels
from ottla.cluster.channels import ChannelParts
from ottla.cluster.dead_letter_channels import DeadLetterChannels, dead_letter_channels
from ottla.cluster.end_offset_channels import EndOffsetChannels, end_offset_channels
from ottla.cluster.fetch_session import FetchLimits
from ottla.cluster.fetchers import FetcherParts, Fetchers
from ottla.cluster.marker_channels import MarkerChannels, marker_channels
from ottla.cluster.metadata_channels import MetadataChannels, metadata_channels
from ottla.cluster.place import Place
from ottla.cluster.share_state_channels import ShareStateChannels, share_state_channels
from ottla.config.inter_broker_version import InterBrokerVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchanges:
    fetchers: Fetchers
    markers: MarkerChannels
    admissions: AdmissionChannels
    share_states: ShareStateChannels
    dead_letters: DeadLetterChannels
    ends: EndOffsetChannels
    metadata: MetadataChannels | None
    """`None` without a remote tier."""

    def stop(self) -> None:
        """Ends all threads. Must not be called under the broker's lock."""
        self.fetchers.stop()
        self.markers.stop()
        self.admissions.stop()
        self.share_states.stop()
        self.dead_letters.stop()
        self.ends.stop()
        if self.metadata is not None:
            self.metadata.stop()


def exchanges_of(
    broker: Broker, place: Place, clock: Clock, version: Callable[[], InterBrokerVersion]
) -> Exchanges:
    """Those of a broker that was assembled as one of a cluster; its fetchers follow from now on
    what its replicas are told. `version` is the cluster's at this time.
    """
    replicas = broker.replicas
    assert isinstance(replicas, Replicas)
    parts = ChannelParts(
        replicas=replicas,
        lock=place.lock,
        wake=place.wake,
        connect=place.connect,
        clock=clock,
        listener=place.listener,
    )
    fetchers = Fetchers(_fetcher_parts(broker, place, clock, version))
    replicas.listeners.append(_FollowedPartitions(fetchers))
    return Exchanges(
        fetchers=fetchers,
        markers=marker_channels(parts, broker.transactions, version),
        admissions=admission_channels(parts, broker.transactions.admissions.answered),
        share_states=share_state_channels(parts, broker.share_persister.answered),
        dead_letters=dead_letter_channels(parts, broker.dead_letters_answered),
        ends=end_offset_channels(parts, broker.end_offsets.answered),
        metadata=None
        if broker.remote_logs is None
        else metadata_channels(parts, broker.remote_logs.metadata),
    )


def _fetcher_parts(
    broker: Broker, place: Place, clock: Clock, version: Callable[[], InterBrokerVersion]
) -> FetcherParts:
    config, replicas = broker.settings.config, broker.replicas
    assert isinstance(replicas, Replicas)

    def wake() -> None:
        """Wakes the server only if followers serve clients: others wait for nothing here."""
        if broker.answers.has_answers:
            place.wake()

    return FetcherParts(
        broker_id=broker.node_id,
        replicas=replicas,
        lock=place.lock,
        connect=place.connect,
        version=version,
        listener=place.listener,
        clock=clock,
        wake=wake,
        limits=FetchLimits(
            wait_max_ms=config.replica_fetch_wait_max_ms,
            min_bytes=config.replica_fetch_min_bytes,
            response_max_bytes=config.replica_fetch_response_max_bytes,
            partition_max_bytes=config.replica_fetch_max_bytes,
        ),
        backoff_ms=config.replica_fetch_backoff_ms,
    )


@dataclass(frozen=True, slots=True)
class _FollowedPartitions:
    """Passes changes of the followed partitions to the fetchers."""

    fetchers: Fetchers

    def became_leader(self, partition: TopicPartition, leader_epoch: int) -> None:
        self.fetchers.changed(partition)

    def became_follower(self, partition: TopicPartition, leader_epoch: int) -> None:
        self.fetchers.changed(partition)

    def stopped(self, partition: TopicPartition, *, delete: bool) -> None:
        self.fetchers.changed(partition)

    def high_watermark_moved(self, partition: Partition) -> None:
        """Does not change what is fetched."""
