"""The controller's requests as orders, from whichever version they came in.

The inverse is `cluster/orders.py`. Kafka's counterparts: `LeaderAndIsrRequest`,
`StopReplicaRequest`, `UpdateMetadataRequest`, which normalize older versions in the same way.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Any

from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.turns import turn_dict
from ottla.broker.replication.replica_manager import Sender
from ottla.controller.requests import (
    LeaderAndIsr,
    PartitionMetadata,
    PartitionOrder,
    StopOrder,
    StopReplica,
    UpdateMetadata,
)
from ottla.metadata.brokers import SECURITY_PROTOCOL_NAMES, BrokerRegistration, Endpoint
from ottla.metadata.image import PartitionImage
from ottla.protocol.messages.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest
from ottla.protocol.messages.stop_replica import StopReplicaRequest
from ottla.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)
from ottla.zookeeper.topics import PartitionState, ReplicaAssignment

FIRST_LISTENER_VERSION = 3
FIRST_STATE_VERSION = 3
"""The StopReplica version from which each partition has a leader epoch and its own delete flag."""

NO_STOP_EPOCH = -1


def sender_of(request: Any) -> Sender:
    return Sender(
        controller=request.controller_id,
        controller_epoch=request.controller_epoch,
        broker_epoch=request.broker_epoch,
    )


def leader_and_isr(request: LeaderAndIsrRequest) -> LeaderAndIsr:
    """`live_leaders` are left out: UpdateMetadata has the brokers' addresses."""
    orders: dict[TopicPartition, PartitionOrder] = turn_dict()
    for one in request.ungrouped_partition_states:
        orders[TopicPartition(one.topic_name, one.partition_index)] = _order(one)
    topic_ids = {}
    for topic in request.topic_states:
        if topic.topic_id != ZERO_UUID:
            topic_ids[topic.topic_name] = topic.topic_id
        for one in topic.partition_states:
            orders[TopicPartition(topic.topic_name, one.partition_index)] = _order(one)
    return LeaderAndIsr(orders=orders, topic_ids=topic_ids, live_leaders={})


def _order(state: LeaderAndIsrPartitionState) -> PartitionOrder:
    return PartitionOrder(
        state=PartitionState(
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            controller_epoch=state.controller_epoch,
            isr=tuple(state.isr),
            recovery_state=state.leader_recovery_state,
        ),
        partition_epoch=state.partition_epoch,
        assignment=ReplicaAssignment(
            tuple(state.replicas),
            adding=tuple(state.adding_replicas),
            removing=tuple(state.removing_replicas),
        ),
        is_new=state.is_new,
    )


def stop_replica(request: StopReplicaRequest, api_version: int) -> StopReplica:
    if api_version >= FIRST_STATE_VERSION:
        orders = (
            (
                TopicPartition(topic.topic_name, one.partition_index),
                StopOrder(leader_epoch=one.leader_epoch, delete=one.delete_partition),
            )
            for topic in request.topic_states
            for one in topic.partition_states
        )
        return StopReplica(orders=turn_dict(orders))
    stop = StopOrder(leader_epoch=NO_STOP_EPOCH, delete=request.delete_partitions)
    ungrouped = (
        TopicPartition(one.topic_name, one.partition_index) for one in request.ungrouped_partitions
    )
    grouped = (
        TopicPartition(topic.name, index)
        for topic in request.topics
        for index in topic.partition_indexes
    )
    return StopReplica(orders=turn_dict((one, stop) for one in chain(ungrouped, grouped)))


def update_metadata(request: UpdateMetadataRequest, api_version: int) -> UpdateMetadata:
    topic_ids: dict[str, Uuid] = {
        one.topic_name: one.topic_id for one in request.topic_states if one.topic_id != ZERO_UUID
    }
    brokers = {one.id: _broker(one, api_version) for one in request.live_brokers}
    partitions = turn_dict(_metadata(request))
    return UpdateMetadata(partitions=partitions, topic_ids=topic_ids, brokers=brokers)


def _metadata(
    request: UpdateMetadataRequest,
) -> Iterator[tuple[TopicPartition, PartitionMetadata]]:
    for one in request.ungrouped_partition_states:
        yield TopicPartition(one.topic_name, one.partition_index), _partition(one)
    for topic in request.topic_states:
        for one in topic.partition_states:
            yield TopicPartition(topic.topic_name, one.partition_index), _partition(one)


def _partition(state: UpdateMetadataPartitionState) -> PartitionMetadata:
    image = PartitionImage(
        replicas=tuple(state.replicas),
        isr=tuple(state.isr),
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.zk_version,
        offline=tuple(state.offline_replicas),
    )
    return PartitionMetadata(image=image, controller_epoch=state.controller_epoch)


def _broker(broker: UpdateMetadataBroker, api_version: int) -> BrokerRegistration:
    if api_version == 0:
        name = SECURITY_PROTOCOL_NAMES[0]
        only = Endpoint(
            listener=name, host=broker.v0_host, port=broker.v0_port, security_protocol=name
        )
        return BrokerRegistration(endpoints=(only,))
    return BrokerRegistration(
        endpoints=tuple(_endpoint(one, api_version) for one in broker.endpoints),
        rack=broker.rack,
    )


def _endpoint(endpoint: UpdateMetadataEndpoint, api_version: int) -> Endpoint:
    """Before version 3 a listener's name is its protocol's."""
    protocol = SECURITY_PROTOCOL_NAMES.get(endpoint.security_protocol, "")
    return Endpoint(
        listener=endpoint.listener if api_version >= FIRST_LISTENER_VERSION else protocol,
        host=endpoint.host,
        port=endpoint.port,
        security_protocol=protocol,
    )
