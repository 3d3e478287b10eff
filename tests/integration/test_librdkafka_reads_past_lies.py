"""Of all lies that a client may tell, what is stored is read by librdkafka to the topic's end.

Its own test of the kind is `tests/property/test_no_lie_is_stored.py`; this one has a real consumer
read all that was stored there, through a server.
"""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from ottla.base.errors import ApiError
from ottla.codec.compression import Compression
from ottla.metadata.deciding.topics import NewTopic
from tests.property.test_no_lie_is_stored import (
    CODECS,
    lies_in_header_bytes,
    lies_in_record_bytes,
    lies_in_varints,
)
from tests.support.logs import NOW_MS, batch
from tests.support.patience import PATIENCE_S
from tests.support.serving import open_broker, serving

pytestmark = pytest.mark.slow


def lies(codec: Compression) -> Iterator[bytearray]:
    return chain(lies_in_header_bytes(codec), lies_in_record_bytes(codec), lies_in_varints(codec))


@pytest.mark.parametrize("codec", CODECS)
def test_librdkafka_reads_all_that_was_stored(tmp_path: Path, codec: Compression) -> None:
    broker = open_broker(tmp_path)
    broker.admin.create_topic(NewTopic(name="t"))
    refused = 0
    for records in lies(codec):
        try:
            broker.appends.append(broker.topics.partition("t", 0), records, now_ms=NOW_MS)
        except ApiError:
            refused += 1
    broker.appends.append(broker.topics.partition("t", 0), batch(b"last"), now_ms=NOW_MS)
    broker.appends.write_out()
    end = broker.topics.partition("t", 0).log.log_end_offset
    assert refused
    assert end > 100
    with serving(broker) as server:
        host, port = server.address
        assert list(offsets_read(f"{host}:{port}", end)) == list(range(end))


def offsets_read(address: str, end: int) -> Iterator[int]:
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "g",
            "enable.auto.commit": False,
            "check.crcs": True,
            "isolation.level": "read_uncommitted",
        }
    )
    try:
        consumer.assign([TopicPartition("t", 0, 0)])
        offset = -1
        while offset < end - 1:
            messages = consumer.consume(min(500, end - 1 - offset), PATIENCE_S)
            assert messages, f"nothing comes after offset {offset}"
            for message in messages:
                assert message.error() is None, message.error()
                message.headers()
                offset = message.offset()
                yield offset
    finally:
        consumer.close()
