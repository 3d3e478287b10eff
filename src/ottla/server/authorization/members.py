"""Guards of requests between the nodes of a cluster, and of what only a cluster has."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from ottla.metadata.acls import Operation
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages import delete_share_group_state as deleting
from ottla.protocol.messages import initialize_share_group_state as initializing
from ottla.protocol.messages import read_share_group_state as reading
from ottla.protocol.messages import read_share_group_state_summary as summarizing
from ottla.protocol.messages import write_share_group_state as writing
from ottla.protocol.messages.add_raft_voter import AddRaftVoterResponse
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse
from ottla.protocol.messages.alter_partition import AlterPartitionResponse
from ottla.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsResponse
from ottla.protocol.messages.begin_quorum_epoch import BeginQuorumEpochResponse
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatResponse
from ottla.protocol.messages.broker_registration import BrokerRegistrationResponse
from ottla.protocol.messages.controlled_shutdown import ControlledShutdownResponse
from ottla.protocol.messages.controller_registration import ControllerRegistrationResponse
from ottla.protocol.messages.describe_quorum import DescribeQuorumResponse
from ottla.protocol.messages.end_quorum_epoch import EndQuorumEpochResponse
from ottla.protocol.messages.envelope import EnvelopeResponse
from ottla.protocol.messages.fetch import FetchResponse
from ottla.protocol.messages.fetch_snapshot import FetchSnapshotResponse
from ottla.protocol.messages.leader_and_isr import LeaderAndIsrResponse
from ottla.protocol.messages.remove_raft_voter import RemoveRaftVoterResponse
from ottla.protocol.messages.stop_replica import StopReplicaResponse
from ottla.protocol.messages.unregister_broker import UnregisterBrokerResponse
from ottla.protocol.messages.unregister_controller import UnregisterControllerResponse
from ottla.protocol.messages.update_features import UpdateFeaturesResponse
from ottla.protocol.messages.update_metadata import UpdateMetadataResponse
from ottla.protocol.messages.update_raft_voter import UpdateRaftVoterResponse
from ottla.protocol.messages.vote import VoteResponse
from ottla.server.authorization.access import Guard
from ottla.server.authorization.cluster import DENIED, needs, with_code


def _refused_states(
    response: Callable[..., Any],
    topic: Callable[..., Any],
    partition: Callable[..., Any],
    request: Any,
) -> Any:
    """A refusal of each partition: these responses have no error for all."""
    return response(
        results=[
            topic(
                topic_id=wanted.topic_id,
                partitions=[
                    partition(
                        partition=one.partition,
                        error_code=DENIED,
                        error_message=DENIED.description,
                    )
                    for one in wanted.partitions
                ],
            )
            for wanted in request.topics
        ]
    )


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
            (ApiKey.VOTE, VoteResponse),
            (ApiKey.BEGIN_QUORUM_EPOCH, BeginQuorumEpochResponse),
            (ApiKey.END_QUORUM_EPOCH, EndQuorumEpochResponse),
            (ApiKey.FETCH_SNAPSHOT, FetchSnapshotResponse),
            (ApiKey.UPDATE_RAFT_VOTER, UpdateRaftVoterResponse),
            (ApiKey.ENVELOPE, EnvelopeResponse),
            (ApiKey.BROKER_REGISTRATION, BrokerRegistrationResponse),
            (ApiKey.BROKER_HEARTBEAT, BrokerHeartbeatResponse),
            (ApiKey.ASSIGN_REPLICAS_TO_DIRS, AssignReplicasToDirsResponse),
        )
    },
    ApiKey.CONTROLLER_REGISTRATION: needs(
        Operation.CLUSTER_ACTION,
        with_code(ControllerRegistrationResponse, error_message=DENIED.description),
    ),
    ApiKey.UNREGISTER_BROKER: needs(
        Operation.ALTER, with_code(UnregisterBrokerResponse, error_message=DENIED.description)
    ),
    ApiKey.UNREGISTER_CONTROLLER: needs(
        Operation.ALTER, with_code(UnregisterControllerResponse, error_message=DENIED.description)
    ),
    ApiKey.ADD_RAFT_VOTER: needs(
        Operation.ALTER, with_code(AddRaftVoterResponse, error_message=DENIED.description)
    ),
    ApiKey.REMOVE_RAFT_VOTER: needs(
        Operation.ALTER, with_code(RemoveRaftVoterResponse, error_message=DENIED.description)
    ),
    ApiKey.DESCRIBE_QUORUM: needs(
        Operation.DESCRIBE, with_code(DescribeQuorumResponse, error_message=DENIED.description)
    ),
    **{
        key: needs(Operation.CLUSTER_ACTION, partial(_refused_states, *parts))
        for key, parts in {
            ApiKey.INITIALIZE_SHARE_GROUP_STATE: (
                initializing.InitializeShareGroupStateResponse,
                initializing.InitializeStateResult,
                initializing.PartitionResult,
            ),
            ApiKey.READ_SHARE_GROUP_STATE: (
                reading.ReadShareGroupStateResponse,
                reading.ReadStateResult,
                reading.PartitionResult,
            ),
            ApiKey.WRITE_SHARE_GROUP_STATE: (
                writing.WriteShareGroupStateResponse,
                writing.WriteStateResult,
                writing.PartitionResult,
            ),
            ApiKey.DELETE_SHARE_GROUP_STATE: (
                deleting.DeleteShareGroupStateResponse,
                deleting.DeleteStateResult,
                deleting.PartitionResult,
            ),
            ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: (
                summarizing.ReadShareGroupStateSummaryResponse,
                summarizing.ReadStateSummaryResult,
                summarizing.PartitionResult,
            ),
        }.items()
    },
}

FETCH_METADATA: Final[Guard] = needs(Operation.CLUSTER_ACTION, with_code(FetchResponse))
"""Of Fetch on a controller's listener (`orders/fetch_metadata.py`)."""
