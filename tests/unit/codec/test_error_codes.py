"""The error codes of a message are noted when it is written, wherever it has them."""

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.codec.primitives import Output
from ottla.codec.schema import Message, writer
from ottla.protocol.headers import RequestHeader, encode_response
from ottla.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.protocol.messages.heartbeat import HeartbeatResponse


def written(message: Message, version: int) -> list[int]:
    output = Output()
    writer(type(message), version)(message, output)
    return output.error_codes


def test_a_message_without_errors_has_none() -> None:
    partitions = [PartitionData(records=b"")]
    answer = FetchResponse(responses=[FetchableTopicResponse(partitions=partitions)])
    assert written(answer, 11) == []


def test_errors_of_the_message_and_of_elements_of_elements_are_noted() -> None:
    refused = PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE, records=b"")
    answer = FetchResponse(
        error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        responses=[FetchableTopicResponse(partitions=[refused, PartitionData(records=b"")] * 2)],
    )
    assert written(answer, 11) == [
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.OFFSET_OUT_OF_RANGE,
    ]


def test_a_message_of_one_error_is_its_error() -> None:
    assert written(HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID), 4) == [
        ErrorCode.UNKNOWN_MEMBER_ID
    ]


def test_a_message_that_cannot_be_written_leaves_no_errors() -> None:
    output = Output()
    refused = PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE, records=b"")
    topic = FetchableTopicResponse(partitions=[refused, PartitionData(records=None)])
    answer = FetchResponse(session_id=7, responses=[topic])
    with pytest.raises(ApiError):
        encode_response(RequestHeader(1, 0, 1), answer, output)
    assert (bytes(output.data), output.error_codes) == (b"", [])
