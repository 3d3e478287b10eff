"""AddRaftVoter, 0 and 1: an observer of the metadata log becomes a voter (KIP-853, KIP-1186)."""

from ottla.codec.schema import Message
from ottla.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from ottla.quorum.messages import AddVoter, VoterAnswer
from ottla.quorum.voters import ReplicaKey, Voter
from ottla.server.dispatching.request_context import PendingAnswer, RequestContext
from ottla.server.orders.quorum_values import endpoints_of, machine_of, message_of


def handle(request: AddRaftVoterRequest, context: RequestContext) -> Message | PendingAnswer:
    return PendingAnswer(machine_of(context).receive(request_of(request)), response_of)


def request_of(message: AddRaftVoterRequest) -> AddVoter:
    key = ReplicaKey(message.voter_id, message.voter_directory_id)
    return AddVoter(
        message.cluster_id,
        Voter(key, endpoints_of(message.listeners)),
        message.timeout_ms,
        message.ack_when_committed,
    )


def response_of(answer: VoterAnswer) -> AddRaftVoterResponse:
    message = message_of(answer.error, answer.message)
    return AddRaftVoterResponse(error_code=answer.error, error_message=message)
