"""Headers of requests and responses, with the exceptions that history left."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, ProtocolError
from ottla.base.files import FileSlice
from ottla.codec.primitives import Output
from ottla.codec.schema import reader
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.headers import (
    RequestHeader,
    encode_request,
    encode_response,
    read_request_header,
    read_response_header,
)
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.testing.file_system import FakeFileSystem


def start(api_key: int, version: int, client: bytes = b"\0\3foo") -> bytes:
    return struct.pack(">hhi", api_key, version, 77) + client


def test_an_old_header_ends_with_the_client_id() -> None:
    header, position = read_request_header(start(ApiKey.HEARTBEAT, 3) + b"body")
    assert header == RequestHeader(ApiKey.HEARTBEAT, 3, 77, "foo")
    assert position == 13


def test_a_flexible_header_continues_with_tagged_fields() -> None:
    tags = b"\2\0\1x\1\2yz"
    header, position = read_request_header(start(ApiKey.HEARTBEAT, 4) + tags + b"body")
    assert (header.client_id, position) == ("foo", 13 + len(tags))


def test_the_client_id_may_be_null_or_empty() -> None:
    for client, expected in ((b"\xff\xff", None), (b"\0\0", "")):
        header, position = read_request_header(start(ApiKey.HEARTBEAT, 0, client))
        assert (header.client_id, position) == (expected, 10)


def test_the_oldest_controlled_shutdown_names_no_client() -> None:
    header, position = read_request_header(start(ApiKey.CONTROLLED_SHUTDOWN, 0, b"\0\0\0\5"))
    assert (header.client_id, position) == (None, 8)


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0",
        start(ApiKey.HEARTBEAT, 0, b""),
        start(ApiKey.HEARTBEAT, 0, b"\0\5ab"),
        start(ApiKey.HEARTBEAT, 0, b"\xff\xfe"),
        start(ApiKey.HEARTBEAT, 0, b"\0\1\xff"),
        start(ApiKey.HEARTBEAT, 4, b"\0\0"),
        start(ApiKey.HEARTBEAT, 4, b"\0\0\1"),
        start(ApiKey.HEARTBEAT, 4, b"\0\0\1\0\x7f"),
        start(999, 0),
        start(-1, 0),
    ],
)
def test_a_broken_header_is_a_protocol_error(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_request_header(frame)


@given(st.binary(max_size=40))
def test_garbage_is_a_header_or_a_protocol_error(frame: bytes) -> None:
    try:
        _, position = read_request_header(memoryview(frame))
    except ProtocolError:
        return
    assert position <= len(frame)


@pytest.mark.parametrize(("version", "header_size"), [(3, 8), (4, 9)])
def test_a_response_repeats_the_correlation_id(version: int, header_size: int) -> None:
    header = RequestHeader(ApiKey.HEARTBEAT, version, 77)
    output = Output()
    output.data += b"earlier"
    encode_response(header, HeartbeatResponse(error_code=27), output)
    frame = bytes(output.data[len(b"earlier") :])
    assert struct.unpack_from(">ii", frame) == (len(frame) - 4, 77)
    correlation_id, position = read_response_header(frame[4:], ApiKey.HEARTBEAT, version)
    assert (correlation_id, position) == (77, header_size - 4)
    response, end = reader(HeartbeatResponse, version)(frame[4:], position)
    assert (response, end) == (HeartbeatResponse(error_code=27), len(frame) - 4)


def test_a_response_counts_the_slices_of_files_in_its_size() -> None:
    file = FakeFileSystem().open("/log", create=True)
    file.pwrite(b"0123456789", 0)
    partition = PartitionData(aborted_transactions=None, records=FileSlice(file, 0, 10))
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
    output = Output()
    for _ in range(2):
        encode_response(RequestHeader(ApiKey.FETCH, 12, 1), response, output)
    whole = output.read_all()
    (size,) = struct.unpack_from(">i", whole)
    assert len(whole) == 2 * (size + 4) == output.size
    assert whole[: size + 4] == whole[size + 4 :]


def test_a_response_that_the_version_cannot_carry_leaves_nothing_behind() -> None:
    output = Output()
    output.data += b"earlier"
    header = RequestHeader(ApiKey.FIND_COORDINATOR, 0, 1)
    with pytest.raises(ApiError) as caught:
        encode_response(header, FindCoordinatorResponse(coordinators=[Coordinator()]), output)
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
    assert output.read_all() == b"earlier"


def test_the_response_to_api_versions_never_has_tagged_fields_in_its_header() -> None:
    output = Output()
    encode_response(RequestHeader(ApiKey.API_VERSIONS, 4, 77), ApiVersionsResponse(), output)
    correlation_id, position = read_response_header(output.data[4:], ApiKey.API_VERSIONS, 4)
    assert (correlation_id, position) == (77, 4)
    response, end = reader(ApiVersionsResponse, 4)(output.data, 4 + position)
    assert (response, end) == (ApiVersionsResponse(), len(output.data))


def test_api_versions_from_the_future_is_answered_in_version_0() -> None:
    header, _ = read_request_header(start(ApiKey.API_VERSIONS, 99) + b"\0" + b"who knows")
    output = Output()
    response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    encode_response(header.in_version(0), response, output)
    assert output.read_all() == struct.pack(">iihi", 10, 77, 35, 0)


@pytest.mark.parametrize(
    ("request_message", "version"),
    [(HeartbeatRequest(group_id="g"), 3), (HeartbeatRequest(group_id="g"), 4)],
)
@pytest.mark.parametrize("client_id", [None, "me"])
def test_a_request_reads_back(
    request_message: HeartbeatRequest, version: int, client_id: str | None
) -> None:
    header = RequestHeader(ApiKey.HEARTBEAT, version, 5, client_id)
    output = Output()
    encode_request(header, request_message, output)
    frame = memoryview(output.data)[4:]
    assert struct.unpack_from(">i", output.data) == (len(frame),)
    again, position = read_request_header(frame)
    assert again == header
    assert reader(HeartbeatRequest, version)(frame, position) == (request_message, len(frame))


def test_the_first_request_of_a_connection_is_flexible() -> None:
    output = Output()
    encode_request(RequestHeader(ApiKey.API_VERSIONS, 3, 1, "me"), ApiVersionsRequest(), output)
    header, position = read_request_header(memoryview(output.data)[4:])
    assert (header.client_id, position) == ("me", 13)


@pytest.mark.parametrize("frame", [b"", b"\0\0\0", b"\0\0\0\1", b"\0\0\0\1\1\0\x05"])
def test_a_broken_response_header_is_a_protocol_error(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_response_header(frame, ApiKey.HEARTBEAT, 4)
