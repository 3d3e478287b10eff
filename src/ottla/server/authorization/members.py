"""Guards of requests between brokers of a cluster, and of features, which only a cluster has."""

from collections.abc import Mapping
from typing import Final

from ottla.metadata.acls import Operation
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse
from ottla.protocol.messages.alter_partition import AlterPartitionResponse
from ottla.protocol.messages.controlled_shutdown import ControlledShutdownResponse
from ottla.protocol.messages.leader_and_isr import LeaderAndIsrResponse
from ottla.protocol.messages.stop_replica import StopReplicaResponse
from ottla.protocol.messages.update_features import UpdateFeaturesResponse
from ottla.protocol.messages.update_metadata import UpdateMetadataResponse
from ottla.server.authorization.access import Guard
from ottla.server.authorization.cluster import DENIED, needs, with_code

GUARDS_OF_MEMBERS: Final[Mapping[ApiKey, Guard]] = {
    ApiKey.UPDATE_FEATURES: needs(
        Operation.ALTER, with_code(UpdateFeaturesResponse, error_message=DENIED.description)
    ),
    **{
        key: needs(Operation.CLUSTER_ACTION, with_code(response))
        for key, response in (
            (ApiKey.LEADER_AND_ISR, LeaderAndIsrResponse),
            (ApiKey.STOP_REPLICA, StopReplicaResponse),
            (ApiKey.UPDATE_METADATA, UpdateMetadataResponse),
            (ApiKey.CONTROLLED_SHUTDOWN, ControlledShutdownResponse),
            (ApiKey.ALTER_PARTITION, AlterPartitionResponse),
            (ApiKey.ALLOCATE_PRODUCER_IDS, AllocateProducerIdsResponse),
        )
    },
}
