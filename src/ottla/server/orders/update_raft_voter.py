"""UpdateRaftVoter, 0: a voter tells its listeners, and what it supports (KIP-853)."""

from ottla.codec.schema import Message
from ottla.protocol.messages.update_raft_voter import (
    CurrentLeader,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from ottla.quorum.messages import UpdateVoter, VoterAnswer
from ottla.quorum.voters import ReplicaKey, Voter
from ottla.server.dispatching.request_context import PendingAnswer, RequestContext
from ottla.server.orders.quorum_values import endpoints_of, leader_id_of, machine_of


def handle(request: UpdateRaftVoterRequest, context: RequestContext) -> Message | PendingAnswer:
    return PendingAnswer(machine_of(context).receive(request_of(request)), response_of)


def request_of(message: UpdateRaftVoterRequest) -> UpdateVoter:
    voter = Voter(
        ReplicaKey(message.voter_id, message.voter_directory_id),
        endpoints_of(message.listeners),
        message.kraft_version_feature.min_supported_version,
        message.kraft_version_feature.max_supported_version,
    )
    return UpdateVoter(message.cluster_id, message.current_leader_epoch, voter)


def response_of(answer: VoterAnswer) -> UpdateRaftVoterResponse:
    known, endpoint = answer.known, answer.known.endpoint
    return UpdateRaftVoterResponse(
        error_code=answer.error,
        current_leader=CurrentLeader(
            leader_id=leader_id_of(known),
            leader_epoch=known.epoch,
            host="" if endpoint is None else endpoint.host,
            port=0 if endpoint is None else endpoint.port,
        ),
    )
