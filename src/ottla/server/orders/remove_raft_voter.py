"""RemoveRaftVoter, 0: a voter becomes an observer of the metadata log (KIP-853)."""

from ottla.codec.schema import Message
from ottla.protocol.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from ottla.quorum.messages import RemoveVoter, VoterAnswer
from ottla.quorum.voters import ReplicaKey
from ottla.server.dispatching.request_context import PendingAnswer, RequestContext
from ottla.server.orders.quorum_values import machine_of, message_of


def handle(request: RemoveRaftVoterRequest, context: RequestContext) -> Message | PendingAnswer:
    return PendingAnswer(machine_of(context).receive(request_of(request)), response_of)


def request_of(message: RemoveRaftVoterRequest) -> RemoveVoter:
    return RemoveVoter(message.cluster_id, ReplicaKey(message.voter_id, message.voter_directory_id))


def response_of(answer: VoterAnswer) -> RemoveRaftVoterResponse:
    message = message_of(answer.error, answer.message)
    return RemoveRaftVoterResponse(error_code=answer.error, error_message=message)
