"""Encodes the controller's requests in the versions of the cluster's inter-broker protocol.

Kafka's counterpart: `AbstractControllerBrokerRequestBatch.sendRequestsToBrokers`.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.codec.schema import Message
from ottla.config.inter_broker_version import InterBrokerVersion
from ottla.controller.requests import (
    LeaderAndIsr,
    Outgoing,
    PartitionMetadata,
    PartitionOrder,
    StopReplica,
    UpdateMetadata,
)
from ottla.metadata.brokers import SECURITY_PROTOCOLS, BrokerRegistration, Endpoint
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.inter_broker_requests import sent_version
from ottla.protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from ottla.protocol.messages.stop_replica import (
    StopReplicaPartition,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopic,
    StopReplicaTopicState,
)
from ottla.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

GROUPED_BY_TOPIC: Final = {ApiKey.LEADER_AND_ISR: 2, ApiKey.UPDATE_METADATA: 5}
"""The first versions that group partitions by topic (KIP-380)."""

States = Mapping[TopicPartition, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class WireRequest:
    api_key: ApiKey
    version: int
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderWriter:
    """Encodes requests. `listener` is the inter-broker listener."""

    controller_id: int
    version: InterBrokerVersion
    listener: str

    def requests(self, outgoing: Outgoing) -> list[WireRequest]:
        """The wire requests; an old StopReplica becomes two: for deleted and stopped replicas."""
        match outgoing.order:
            case LeaderAndIsr() as order:
                return [self._leader_and_isr(outgoing, order)]
            case UpdateMetadata() as order:
                return [self._update_metadata(outgoing, order)]
            case StopReplica() as order:
                return self._stop_replica(outgoing, order)

    def _request(
        self, kind: Any, api_key: ApiKey, outgoing: Outgoing, **fields: Any
    ) -> WireRequest:
        version = sent_version(api_key, self.version)
        assert version is not None
        message = kind(
            controller_id=self.controller_id,
            controller_epoch=outgoing.controller_epoch,
            broker_epoch=outgoing.broker_epoch,
            **fields,
        )
        return WireRequest(api_key=api_key, version=version, message=message)

    def _states(
        self, api_key: ApiKey, topic_state: Any, states: States, topic_ids: Mapping[str, Uuid]
    ) -> dict[str, Any]:
        """The partition states, grouped by topic if the version supports it (KIP-380)."""
        version = sent_version(api_key, self.version)
        if version is None or version < GROUPED_BY_TOPIC[api_key]:
            return {"ungrouped_partition_states": list(states.values())}
        topics = [
            topic_state(
                topic_name=topic,
                topic_id=topic_ids.get(topic, ZERO_UUID),
                partition_states=[states[one] for one in partitions],
            )
            for topic, partitions in _by_topic(states)
        ]
        return {"topic_states": topics}

    def _leader_and_isr(self, outgoing: Outgoing, order: LeaderAndIsr) -> WireRequest:
        key = ApiKey.LEADER_AND_ISR
        leaders = [
            LeaderAndIsrLiveLeader(broker_id=broker, host_name=endpoint.host, port=endpoint.port)
            for broker, one in order.live_leaders.items()
            if (endpoint := one.endpoint(self.listener)) is not None
        ]
        states = {one: _order_state(one, its) for one, its in order.orders.items()}
        fields = self._states(key, LeaderAndIsrTopicState, states, order.topic_ids)
        return self._request(LeaderAndIsrRequest, key, outgoing, live_leaders=leaders, **fields)

    def _update_metadata(self, outgoing: Outgoing, order: UpdateMetadata) -> WireRequest:
        key = ApiKey.UPDATE_METADATA
        brokers = [self._broker(broker, one) for broker, one in order.brokers.items()]
        states = {one: _metadata_state(one, its) for one, its in order.partitions.items()}
        fields = self._states(key, UpdateMetadataTopicState, states, order.topic_ids)
        return self._request(UpdateMetadataRequest, key, outgoing, live_brokers=brokers, **fields)

    def _broker(self, broker: int, one: BrokerRegistration) -> UpdateMetadataBroker:
        """A broker with its endpoints; before version 3 one unnamed endpoint per protocol."""
        endpoints = [_endpoint(endpoint) for endpoint in one.endpoints]
        version = sent_version(ApiKey.UPDATE_METADATA, self.version) or 0
        if version < 3:
            endpoints = list({one.security_protocol: one for one in reversed(endpoints)}.values())
        return UpdateMetadataBroker(id=broker, endpoints=endpoints, rack=one.rack)

    def _stop_replica(self, outgoing: Outgoing, order: StopReplica) -> list[WireRequest]:
        key = ApiKey.STOP_REPLICA
        version = sent_version(key, self.version) or 0
        if version >= 3:
            topics = [
                StopReplicaTopicState(
                    topic_name=topic,
                    partition_states=[
                        StopReplicaPartitionState(
                            partition_index=one.partition,
                            leader_epoch=order.orders[one].leader_epoch,
                            delete_partition=order.orders[one].delete,
                        )
                        for one in partitions
                    ],
                )
                for topic, partitions in _by_topic(order.orders)
            ]
            return [self._request(StopReplicaRequest, key, outgoing, topic_states=topics)]
        found = []
        for delete in (False, True):
            chosen = [one for one, its in order.orders.items() if its.delete is delete]
            fields = {"delete_partitions": delete, **_old_stops(version, chosen)}
            if chosen:
                found.append(self._request(StopReplicaRequest, key, outgoing, **fields))
        return found


def _old_stops(version: int, partitions: list[TopicPartition]) -> dict[str, Any]:
    if version == 0:
        ungrouped = [
            StopReplicaPartition(topic_name=one.topic, partition_index=one.partition)
            for one in partitions
        ]
        return {"ungrouped_partitions": ungrouped}
    topics = [
        StopReplicaTopic(name=topic, partition_indexes=[one.partition for one in its])
        for topic, its in _by_topic(partitions)
    ]
    return {"topics": topics}


def _order_state(where: TopicPartition, order: PartitionOrder) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(
        topic_name=where.topic,
        partition_index=where.partition,
        controller_epoch=order.state.controller_epoch,
        leader=order.state.leader,
        leader_epoch=order.state.leader_epoch,
        isr=list(order.state.isr),
        partition_epoch=order.partition_epoch,
        replicas=list(order.assignment.replicas),
        adding_replicas=list(order.assignment.adding),
        removing_replicas=list(order.assignment.removing),
        is_new=order.is_new,
        leader_recovery_state=order.state.recovery_state,
    )


def _metadata_state(
    where: TopicPartition, metadata: PartitionMetadata
) -> UpdateMetadataPartitionState:
    image = metadata.image
    return UpdateMetadataPartitionState(
        topic_name=where.topic,
        partition_index=where.partition,
        controller_epoch=metadata.controller_epoch,
        leader=image.leader,
        leader_epoch=image.leader_epoch,
        isr=list(image.isr),
        zk_version=image.partition_epoch,
        replicas=list(image.replicas),
        offline_replicas=list(image.offline),
    )


def _endpoint(endpoint: Endpoint) -> UpdateMetadataEndpoint:
    return UpdateMetadataEndpoint(
        port=endpoint.port,
        host=endpoint.host,
        listener=endpoint.listener,
        security_protocol=SECURITY_PROTOCOLS[endpoint.security_protocol],
    )


def _by_topic(
    partitions: Iterable[TopicPartition] | Mapping[TopicPartition, object],
) -> Iterator[tuple[str, list[TopicPartition]]]:
    topics: dict[str, list[TopicPartition]] = {}
    for one in partitions:
        topics.setdefault(one.topic, []).append(one)
    yield from topics.items()
