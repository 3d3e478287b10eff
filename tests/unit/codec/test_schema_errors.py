"""Error codes in messages are found wherever messages have them."""

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.codec.schema_errors import error_finder
from ottla.protocol.messages import DECLARED, response_class
from ottla.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.protocol.messages.heartbeat import HeartbeatResponse


def test_a_message_without_errors_has_none() -> None:
    answer = FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData()])])
    assert error_finder(FetchResponse)(answer) is None


def test_errors_of_the_message_and_of_elements_of_elements_are_found() -> None:
    partitions = [PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE), PartitionData()] * 200
    answer = FetchResponse(
        error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        responses=[FetchableTopicResponse(partitions=partitions)],
    )
    found = error_finder(FetchResponse)(answer)
    assert found is not None
    assert sorted(found) == [ErrorCode.OFFSET_OUT_OF_RANGE] * 200 + [
        ErrorCode.INVALID_FETCH_SESSION_EPOCH
    ]


def test_a_message_of_one_error_is_its_error() -> None:
    answer = HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    assert error_finder(HeartbeatResponse)(answer) == [ErrorCode.UNKNOWN_MEMBER_ID]


@pytest.mark.parametrize("key", sorted(DECLARED), ids=lambda key: key.name)
def test_every_response_can_be_looked_through(key: int) -> None:
    response = response_class(key)
    assert error_finder(response)(response()) is None
