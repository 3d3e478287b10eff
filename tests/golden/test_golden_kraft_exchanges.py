"""What controllers and brokers of a KRaft cluster said to each other, read and written again."""

from collections import Counter
from typing import Any

import pytest

from ottla.codec.primitives import Output
from ottla.codec.schema import Message, writer
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.headers import read_request_header, read_response_header
from ottla.protocol.messages import request_class, response_class
from tests.golden.exchanges import RECORDED, exchanges, whole

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(RECORDED is None, reason="no recorded exchanges (OTTLA_SHARED)"),
]

FILES = (
    "../kraft/exchanges.jsonl",
    "../kraft/dynamic/exchanges.jsonl",
    "../kraft/dynamic/stuck-exchanges.jsonl",
)
OF_KRAFT = {
    ApiKey.VOTE,
    ApiKey.BEGIN_QUORUM_EPOCH,
    ApiKey.END_QUORUM_EPOCH,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.ENVELOPE,
    ApiKey.FETCH_SNAPSHOT,
    ApiKey.BROKER_REGISTRATION,
    ApiKey.BROKER_HEARTBEAT,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.CONTROLLER_REGISTRATION,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
}
"""APIs that only clusters with KRaft have, and that were recorded."""


def encoded(message: Message, version: int) -> bytes:
    output = Output()
    writer(type(message), version)(message, output)
    return bytes(output.read_all())


class Seen:
    """Reads frames and writes them again; `counts` says how many of which API were the same."""

    def __init__(self) -> None:
        self.counts: Counter[ApiKey] = Counter()

    def exchange(self, request_frame: bytes, response_frame: bytes | None) -> None:
        header, position = read_request_header(request_frame)
        key, version = ApiKey(header.api_key), header.api_version
        request: Any = whole(request_class(key), version, request_frame, position)
        assert encoded(request, version) == request_frame[position:], header
        self.counts[key] += 1
        if response_frame is None:
            return
        _, position = read_response_header(response_frame, key, version)
        response: Any = whole(response_class(key), version, response_frame, position)
        assert encoded(response, version) == response_frame[position:], header
        if key == ApiKey.ENVELOPE:
            self.exchange(request.request_data, response.response_data)


def test_every_request_and_response_is_written_again_as_it_was_read() -> None:
    seen = Seen()
    for name in FILES:
        for one in exchanges(name):
            seen.exchange(one.request_frame, one.response_frame)
    assert set(seen.counts) >= OF_KRAFT
    assert seen.counts.total() > 7300
