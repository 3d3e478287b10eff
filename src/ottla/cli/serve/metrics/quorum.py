"""The metrics of a node of a KRaft cluster: how it stands in the quorum, and what all nodes know of
the cluster (Kafka: `ControllerMetadataMetrics`, which only controllers have).
"""

from collections.abc import Iterator

from ottla.broker.broker import Broker
from ottla.broker.membership.membership import QuorumMembership
from ottla.cli.metrics.families import Families
from ottla.metadata.cluster_view import NO_LEADER
from ottla.metadata.image import MetadataImage


def collect_quorum(broker: Broker, families: Families) -> Iterator[None]:
    membership = broker.membership
    if not isinstance(membership, QuorumMembership):
        return
    status = membership.status()
    families.add("ottla_quorum_state", (status.state,), 1)
    for name, value in (
        ("leader_id", status.leader_id),
        ("epoch", status.epoch),
        ("voted_id", status.voted_id),
        ("high_watermark", status.high_watermark),
        ("log_end_offset", status.end_offset),
        ("log_end_epoch", status.end_epoch),
        ("replayed_offset", status.committed_offset),
        ("new_leaders", status.new_leader_count),
        ("voters", status.voter_count),
    ):
        families.add(f"ottla_quorum_{name}", (), value)
    if status.state == "leader":
        families.add("ottla_quorum_observers", (), status.observer_count)
    if status.election_latency_ms is not None:
        labels = (status.election_reason,)
        families.add(
            "ottla_quorum_election_latency_seconds", labels, status.election_latency_ms / 1000
        )
    yield
    yield from _cluster(broker.image_store.image, families)


def _cluster(image: MetadataImage, families: Families) -> Iterator[None]:
    """Yields after each topic: there may be many."""
    partition_count = offline = not_preferred = 0
    for topic in image.topics.values():
        for one in topic.partitions.values():
            offline += one.leader == NO_LEADER
            not_preferred += one.leader != one.replicas[0]
        partition_count += len(topic.partitions)
        yield
    fenced = sum(one.is_fenced for one in image.brokers.values())
    for name, value in (
        ("active_brokers", len(image.brokers) - fenced),
        ("fenced_brokers", fenced),
        ("topics", len(image.topics)),
        ("partitions", partition_count),
        ("offline_partitions", offline),
        ("not_preferred_partitions", not_preferred),
    ):
        families.add(f"ottla_cluster_{name}", (), value)
