"""What Kafka's nodes said to each other in a quorum, as values of the machine and written again."""

from collections import Counter
from functools import partial
from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.cluster.quorum.quorum_messages import answer_of, message_of
from ottla.protocol.api_keys import ApiKey
from ottla.quorum.messages import DescribeQuorum, Known, QuorumAnswer, ReplicaState
from ottla.quorum.voters import Endpoint, ReplicaKey, Voter
from ottla.server.orders import (
    add_raft_voter,
    begin_quorum_epoch,
    describe_quorum,
    end_quorum_epoch,
    fetch_metadata,
    fetch_snapshot,
    remove_raft_voter,
    vote,
)
from tests.golden.exchanges import RECORDED, exchanges
from tests.golden.test_golden_kraft_exchanges import FILES, encoded

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(RECORDED is None, reason="no recorded exchanges (OTTLA_SHARED)"),
]

HANDLERS: dict[ApiKey, Any] = {
    ApiKey.VOTE: vote,
    ApiKey.BEGIN_QUORUM_EPOCH: begin_quorum_epoch,
    ApiKey.END_QUORUM_EPOCH: end_quorum_epoch,
    ApiKey.FETCH: fetch_metadata,
    ApiKey.FETCH_SNAPSHOT: fetch_snapshot,
    ApiKey.ADD_RAFT_VOTER: add_raft_voter,
    ApiKey.REMOVE_RAFT_VOTER: remove_raft_voter,
    ApiKey.DESCRIBE_QUORUM: describe_quorum,
}


def quorum_answer(message: Any) -> QuorumAnswer:
    """What only tools read."""
    ((found,),) = [topic.partitions for topic in message.topics]
    return QuorumAnswer(
        ErrorCode(found.error_code),
        Known(found.leader_epoch, found.leader_id),
        found.high_watermark,
        tuple(map(replica_state, found.current_voters)),
        tuple(map(replica_state, found.observers)),
        tuple(
            Voter(
                ReplicaKey(one.node_id),
                tuple(Endpoint(at.name, at.host, at.port) for at in one.listeners),
            )
            for one in message.nodes
        ),
    )


def replica_state(one: Any) -> ReplicaState:
    return ReplicaState(
        ReplicaKey(one.replica_id, one.replica_directory_id),
        one.log_end_offset,
        one.last_fetch_timestamp,
        one.last_caught_up_timestamp,
    )


def test_requests_and_responses_of_a_quorum_have_as_values_all_that_they_say() -> None:
    counts: Counter[ApiKey] = Counter()
    errors: Counter[int] = Counter()
    for name in FILES:
        for one in exchanges(name):
            header = one.header
            handler = HANDLERS.get(ApiKey(header.api_key))
            if handler is None:
                continue
            version, message = header.api_version, one.request
            request = handler.request_of(message)
            if request is None:
                assert header.api_key == ApiKey.FETCH, "only brokers fetch other topics"
                continue
            counts[ApiKey(header.api_key)] += 1
            if not isinstance(request, DescribeQuorum):
                again = message_of(request, version)
                assert encoded(again, version) == encoded(message, version), one.line
            if one.response_frame is None:
                continue
            response = one.response
            respond = handler.response_of
            if isinstance(request, DescribeQuorum):
                answer: Any = quorum_answer(response)
                for topic in response.topics:
                    # The words of an error are our own.
                    topic.partitions[0].error_message = answer.error.description
            else:
                answer = answer_of(request, response)
            if header.api_key == ApiKey.FETCH:
                respond = partial(respond, message.topics, version)
            errors[answer.error] += 1
            assert encoded(respond(answer), version) == encoded(response, version), one.line
    assert set(counts) == set(HANDLERS)
    assert counts[ApiKey.FETCH] > 4000
    assert counts.total() > 5000
    assert {0, 6, 74, 125, 126} <= set(errors)
