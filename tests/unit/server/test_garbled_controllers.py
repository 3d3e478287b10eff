"""Whatever a controller answers to what a broker passes on, clients get answers that they know."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.codec.schema import Message
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.asking import CORRELATION_ID
from tests.support.lonely_node import LonelyNode


def creation(name: str) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    return CreateTopicsRequest(topics=[topic])


TOPIC_SETTING = IncrementalAlterConfigsRequest(
    resources=[
        AlterConfigsResource(
            resource_type=2,
            resource_name="t",
            configs=[AlterableConfig(name="retention.ms", config_operation=0, value="1")],
        )
    ]
)
ASKED: dict[str, tuple[Message, int]] = {
    "CreateTopics": (creation("new"), 7),
    "CreateTopics, as old clients ask": (creation("new"), 2),
    "DeleteTopics": (DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]), 6),
    "IncrementalAlterConfigs": (TOPIC_SETTING, 1),
}
ID = CORRELATION_ID.to_bytes(4, "big")
OTHER = (CORRELATION_ID + 1).to_bytes(4, "big")
RETRIED = {ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER}


def answered(node: LonelyNode, request: Message, version: int, answer: bytes | ApiError) -> Any:
    """What the client gets when the controller answers that."""
    later, output = node.client.send(request, version)
    node.answer(answer)
    while later is not None:
        assert later.pending_id in node.broker.answers.take_answered(0.0)
        later, output = node.client.go_on(later)
    return node.client.decode(request, version, output)


def codes(response: Any) -> set[int]:
    elements = getattr(response, "topics", None) or response.responses
    assert len(elements) == 1
    return {one.error_code for one in elements}


@pytest.fixture(scope="module")
def node() -> LonelyNode:
    """It knows the topic that clients change, and does not lead any more."""
    found = LonelyNode()
    found.ask_node(creation("t"), 7)
    found.leads = False
    return found


@pytest.mark.slow
@given(
    st.sampled_from(sorted(ASKED)),
    st.one_of(
        st.binary(max_size=60),
        st.binary(max_size=60).map(OTHER.__add__),
        st.sampled_from([b"", b"\xff", b"\xff\xff\xff\xff", bytes(4)]).map(ID.__add__),
        st.binary(max_size=3).map(lambda one: ID + b"\x00" + bytes(4) + b"\xff\xff\xff\x7f" + one),
    ),
)
@example("CreateTopics", b"")
@example("CreateTopics", ID + b"\x00\x00\x00\x00\x00\xff\xff\xff\xff\x0f")
@example("DeleteTopics", OTHER + b"\x00\x00\x00\x00\x00\x01\x00")
def test_an_answer_that_cannot_be_read_is_one_that_the_client_may_ask_again_for(
    node: LonelyNode, name: str, answer: bytes
) -> None:
    response = answered(node, *ASKED[name], answer)
    assert codes(response) <= RETRIED


@pytest.mark.parametrize("name", sorted(ASKED))
@pytest.mark.parametrize(
    "code", [-1, -2, 99, 12345, *RETRIED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
)
def test_an_envelope_that_is_refused_with_any_code_is_one_to_ask_again(
    node: LonelyNode, name: str, code: int
) -> None:
    response = answered(node, *ASKED[name], ApiError(ErrorCode(code)))
    assert codes(response) <= RETRIED


def test_people_are_told_of_what_cannot_be_read_and_not_each_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    node = LonelyNode()
    node.leads = False
    for _ in range(9):
        answered(node, creation("t"), 7, OTHER + bytes(20))
    lines = [one.getMessage() for one in caplog.records]
    assert len(lines) == 4
    assert lines[0] == (
        "the controller's answer to CREATE_TOPICS cannot be read (1 in total): a response to "
        "another request"
    )
