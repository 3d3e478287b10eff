"""A batch that takes long to unpack is prepared beside the loop: others are served meanwhile, and
its own connection waits, so that nothing it has sent later comes before it."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.broker.waiting.background import Preparation, Prepared, carry_out
from ottla.codec.compression import Compression
from ottla.embedded import log as embedded
from ottla.metadata.deciding.topics import NewTopic
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.record.batch import RecordBatch
from ottla.record.builder import RecordBatchBuilder
from ottla.server.dispatching import background
from ottla.server.network.listener import Server
from ottla.storage.log.partition_log import PartitionLog
from tests.support.logs import NOW_MS, values
from tests.support.patience import PATIENCE_S
from tests.support.serving import WireClient, open_broker, serving

VERSION = 9
LARGE = b"l" * (3 << 20)
LONG_CODECS = [one for one in Compression if one is not Compression.NONE]


class Gate:
    """Nothing is prepared before `open` is set."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.begun = threading.Event()

    def carry_out(self, preparation: Preparation) -> list[Prepared]:
        self.begun.set()
        assert self.open.wait(PATIENCE_S)
        return carry_out(preparation)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    gate = Gate()
    monkeypatch.setattr(background, "carry_out", gate.carry_out)
    return gate


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    broker = open_broker(tmp_path)
    broker.admin.create_topic(NewTopic(name="t", partition_count=2))
    with serving(broker) as server:
        yield server


def log_of(server: Server, index: int = 0) -> PartitionLog:
    return server._broker.topics.partition("t", index).log


def batch_of(value: bytes, compression: Compression, **settings: Any) -> bytes:
    builder = RecordBatchBuilder(compression=compression, **settings)
    builder.append(b"key", value, NOW_MS)
    return builder.build()


def long_batch(compression: Compression = Compression.GZIP, **settings: Any) -> bytes:
    return batch_of(LARGE, compression, **settings)


def garbled() -> bytes:
    """Whose records are one more than the header says."""
    builder = RecordBatchBuilder(compression=Compression.GZIP)
    builder.append(b"key", LARGE, NOW_MS)
    builder.append(b"key", b"", NOW_MS)
    made = bytearray(builder.build())
    made[26] = 0
    made[60] = 1
    made[17:21] = RecordBatch(made).compute_crc().to_bytes(4, "big")
    return bytes(made)


def short_batch(**settings: Any) -> bytes:
    return batch_of(b"short", Compression.NONE, **settings)


def produce(*records: bytes, acks: int = -1) -> ProduceRequest:
    """To partition 0, 1 and so on."""
    data = [PartitionProduceData(index=index, records=one) for index, one in enumerate(records)]
    topic = TopicProduceData(name="t", partition_data=data)
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[topic])


def answers(client: WireClient) -> list[Any]:
    response = client.receive(ApiKey.PRODUCE, VERSION)
    return list(response.responses[0].partition_responses)


def test_others_are_served_while_a_batch_is_unpacked(server: Server, gate: Gate) -> None:
    with WireClient(server.address) as one, WireClient(server.address) as other:
        one.send(produce(long_batch()), VERSION)
        one.send(produce(short_batch()), VERSION)
        assert gate.begun.wait(PATIENCE_S)
        assert other.ask(ApiVersionsRequest(), 0).error_code == 0
        other.send(produce(short_batch()), VERSION)
        assert [answer.base_offset for answer in answers(other)] == [0]
        gate.open.set()
        assert [answer.base_offset for answer in answers(one)] == [1]
        assert [answer.base_offset for answer in answers(one)] == [2]
    assert values(log_of(server)) == [b"short", LARGE, b"short"]


@pytest.mark.parametrize("codec", LONG_CODECS)
def test_a_long_batch_is_stored_as_it_was_sent(server: Server, codec: Compression) -> None:
    with WireClient(server.address) as client:
        for offset in range(2):
            client.send(produce(long_batch(codec)), VERSION)
            (answer,) = answers(client)
            assert (answer.error_code, answer.base_offset) == (0, offset)
    assert values(log_of(server)) == [LARGE, LARGE]


def test_each_partition_of_a_request_has_its_answer(server: Server) -> None:
    with WireClient(server.address) as client:
        client.send(produce(long_batch(), short_batch()), VERSION)
        assert [(one.index, one.error_code) for one in answers(client)] == [(0, 0), (1, 0)]
        client.send(produce(short_batch(), garbled()), VERSION)
        fine, refused = answers(client)
    assert (fine.index, fine.base_offset) == (0, 1)
    assert (refused.index, refused.error_code) == (1, ErrorCode.INVALID_RECORD)
    assert "bytes follow the last record" in refused.error_message
    assert [one.batch_index for one in refused.record_errors] == [1]
    assert values(log_of(server, 1)) == [b"short"]


def test_a_retry_of_a_long_batch_is_answered_with_its_first_offset(server: Server) -> None:
    settings = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    with WireClient(server.address) as client:
        for _ in range(2):
            client.send(produce(long_batch(**settings)), VERSION)
            assert [one.base_offset for one in answers(client)] == [0]
    assert log_of(server).log_end_offset == 1


def test_what_is_sent_without_wanting_an_answer_is_appended(server: Server) -> None:
    with WireClient(server.address) as client:
        client.send(produce(long_batch(), acks=0), VERSION)
        client.send(produce(short_batch()), VERSION)
        assert [one.base_offset for one in answers(client)] == [1]
        client.send(produce(garbled(), acks=0), VERSION)
        assert client.receive_frame() is None


def test_a_client_that_leaves_meanwhile_leaves_nothing(server: Server, gate: Gate) -> None:
    with WireClient(server.address) as client:
        client.send(produce(long_batch()), VERSION)
        assert gate.begun.wait(PATIENCE_S)
    with WireClient(server.address) as other:
        other.send(produce(short_batch()), VERSION)
        assert [one.base_offset for one in answers(other)] == [0]
        gate.open.set()
        other.send(produce(long_batch()), VERSION)
        assert [one.base_offset for one in answers(other)] == [1]


def test_an_embedded_log_that_is_served_takes_long_batches_at_once(tmp_path: Path) -> None:
    with embedded.open(tmp_path) as log:
        log.create_topic("t")
        builder = RecordBatchBuilder(compression=Compression.GZIP)
        builder.append(None, LARGE, NOW_MS)
        log.listen("127.0.0.1:0")
        assert log.append_batch("t", 0, builder) == 0
        assert [one.value for one in log.read("t")] == [LARGE]
