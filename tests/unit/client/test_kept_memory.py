"""Memory for long answers: fresh for each, or kept where records are used before the next one."""

from collections.abc import Iterator

import pytest

from ottla.client.connecting.socket_connection import LONG_FRAME, SocketConnection
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)
from tests.support.scripted_broker import ScriptedBroker, scripted

SIZES = (2 * LONG_FRAME, 3 * LONG_FRAME, 10, LONG_FRAME)


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    def answered(offset: int) -> PartitionData:
        return PartitionData(partition_index=0, records=bytes([offset]) * SIZES[offset])

    with scripted(answered) as running:
        yield running


def fetched(connection: SocketConnection, offset: int) -> memoryview:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(topics=[FetchTopic(topic="t", partitions=[partition])])
    (topic,) = connection.ask(request).responses
    found: memoryview = topic.partitions[0].records
    return found


def test_each_answer_has_its_own_memory(broker: ScriptedBroker) -> None:
    with SocketConnection("127.0.0.1", broker.port) as connection:
        found = [fetched(connection, offset) for offset in range(len(SIZES))]
    assert found == [bytes([offset]) * size for offset, size in enumerate(SIZES)]


def test_kept_memory_holds_long_answers_one_after_the_other(broker: ScriptedBroker) -> None:
    with SocketConnection("127.0.0.1", broker.port, keeps_memory=True) as connection:
        for offset, size in enumerate(SIZES):
            assert fetched(connection, offset) == bytes([offset]) * size
        first = fetched(connection, 1)
        second = fetched(connection, 0)
        assert first.obj is second.obj, "it is the same memory"


def test_a_short_answer_gives_the_memory_of_a_long_one_back(broker: ScriptedBroker) -> None:
    with SocketConnection("127.0.0.1", broker.port, keeps_memory=True) as connection:
        long = fetched(connection, 0)
        fetched(connection, 2)
        fetched(connection, 3)
        assert long == bytes(SIZES[0])
