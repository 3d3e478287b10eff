"""A partition whose `partition.metadata` is damaged: the topic file knows better."""

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.files import FileSystem, read_file, replace_file
from ottla.broker.waiting.fetch_queries import FetchQuery, PartitionQuery
from ottla.metadata.deciding.topics import NewTopic
from ottla.storage.files.integrity import blank_integrity
from ottla.testing import FakeFileSystem
from tests.support.brokers import batch, disk, open_broker

PATH = "/d/t-0/partition.metadata"


def stopped() -> FakeFileSystem:
    file_system = disk("/d")
    broker = open_broker(file_system)
    broker.admin.create_topic(NewTopic(name="t", overrides={"retention.ms": "-1"}))
    broker.admin.create_topic(NewTopic(name="u"))
    for topic in "tu":
        broker.appends.append(broker.topics.partition(topic, 0), batch(), now_ms=1)
    broker.close()
    return file_system


def damage(file_system: FileSystem, content: bytes) -> None:
    replace_file(file_system, PATH, content)


@pytest.mark.slow
def test_a_flipped_bit_is_repaired_from_the_topic_file() -> None:
    file_system = stopped()
    content = read_file(file_system, PATH)
    for bit in range(0, 8 * len(content), 3):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        damage(file_system, bytes(damaged))
        broker = open_broker(file_system)
        topic = broker.topics.get("t")
        assert topic.overrides == {"retention.ms": "-1"}
        assert topic.partitions[0].log.log_end_offset == 1
        assert broker.topics.online_partition("t", 0).find_offset(0) is not None
        assert read_file(file_system, PATH) == content, bit
        broker.close()


def test_what_is_unreadable_is_repaired_from_the_logs_own_integrity_file() -> None:
    file_system = stopped()
    content = read_file(file_system, PATH)
    damage(file_system, b"nonsense")
    open_broker(file_system).close()
    assert read_file(file_system, PATH) == content


def test_what_nobody_knows_is_not_served_and_others_are() -> None:
    file_system = stopped()
    blank_integrity(file_system, "/d/t-0")
    damage(file_system, b"nonsense")
    broker = open_broker(file_system)
    query = FetchQuery(
        [PartitionQuery("t", 0, 0, 1000), PartitionQuery("u", 0, 0, 1000)], max_size=10_000
    )
    refused, found = broker.fetches.fetch(query).partitions
    assert isinstance(refused, ApiError)
    assert refused.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert not isinstance(found, ApiError)
    assert found.records is not None
    with pytest.raises(ApiError) as caught:
        broker.appends.append(broker.topics.partition("t", 0), batch(), now_ms=1)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    broker.close()
    assert read_file(file_system, PATH) == b"nonsense"
    assert file_system.status("/d/.kafka_cleanshutdown") is not None
