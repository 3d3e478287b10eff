"""Selects the replica that a consumer should read from: one in its own rack, if there is one.

Kafka's counterparts: `RackAwareReplicaSelector`, `ReplicaManager.findPreferredReadReplica`
(KIP-392).
"""

from collections.abc import Mapping

from ottla.broker.replication.leading import Leading
from ottla.metadata.brokers import BrokerRegistration


def closest_replica(
    leading: Leading, rack: str, fetch_offset: int, brokers: Mapping[int, BrokerRegistration]
) -> int | None:
    """Returns the in-sync follower in the rack that has the offset and the highest log end.

    Returns `None` if the leader is in the rack itself, or if there is no such follower.
    """
    leader = brokers.get(leading.local.broker_id)
    if leader is not None and leader.rack == rack:
        return None
    found = [
        (replica.log_end_offset, replica.last_caught_up_ms, broker)
        for broker, replica in leading.replicas.items()
        if broker in leading.isr.committed
        and (known := brokers.get(broker)) is not None
        and known.rack == rack
        and not known.is_fenced
        and replica.log_start_offset <= fetch_offset <= replica.log_end_offset
    ]
    return max(found)[2] if found else None
