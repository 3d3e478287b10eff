"""The metrics of a node of a KRaft cluster: how it stands in the quorum."""

from ottla.broker.broker import Broker
from ottla.broker.membership.membership import QuorumMembership
from ottla.cli.metrics.families import Families


def collect_quorum(broker: Broker, families: Families) -> None:
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
