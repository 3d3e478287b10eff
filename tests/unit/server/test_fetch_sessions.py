"""Fetch sessions over the wire: by name and by id, and what becomes of deleted topics."""

from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.broker.broker import Broker
from ottla.metadata.deciding.topics import NewTopic
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from tests.support.asking import Asker
from tests.support.brokers import batch, disk, open_broker

VERSIONS = range(7, 19)
BY_NAME, BY_ID = 12, 13
UNKNOWN_ID = Uuid(bytes(range(16)))


@pytest.fixture
def broker() -> Broker:
    broker = open_broker(disk("/d"))
    for name in ("t", "u"):
        broker.admin.create_topic(NewTopic(name=name, partition_count=2))
    return broker


@pytest.fixture
def asker(broker: Broker) -> Asker:
    return Asker(broker)


def id_of(broker: Broker, name: str) -> Uuid:
    topic = broker.topics.find(name)
    return topic.topic_id if topic else UNKNOWN_ID


def wanted(broker: Broker, topic: str = "t", *indexes: int, offset: int = 0) -> FetchTopic:
    partitions = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
        for index in indexes or (0, 1)
    ]
    return FetchTopic(topic=topic, topic_id=id_of(broker, topic), partitions=partitions)


def fetch(session_id: int, epoch: int, *topics: FetchTopic, **fields: Any) -> FetchRequest:
    values: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, **fields}
    return FetchRequest(session_id=session_id, session_epoch=epoch, topics=list(topics), **values)


def begin(asker: Asker, *topics: FetchTopic, version: int = BY_NAME) -> int:
    answer = asker.ask(fetch(0, 0, *topics), version)
    assert answer.error_code == 0
    assert answer.session_id > 0
    session_id: int = answer.session_id
    return session_id


def codes_of(answer: Any) -> list[ErrorCode]:
    assert answer.error_code == 0
    return [ErrorCode(one.error_code) for topic in answer.responses for one in topic.partitions]


@pytest.mark.parametrize("version", VERSIONS)
def test_only_partitions_with_news_come_in_a_session(
    asker: Asker, broker: Broker, version: int
) -> None:
    session_id = begin(asker, wanted(broker, "t"), wanted(broker, "u"), version=version)
    assert asker.ask(fetch(session_id, 1), version).responses == []
    broker.appends.append(broker.topics.partition("u", 1), batch(), now_ms=1)
    broker.appends.write_out()
    answer = asker.ask(fetch(session_id, 2), version)
    assert answer.session_id == session_id
    (topic,) = answer.responses
    by_name, by_id = ("u", ZERO_UUID), ("", id_of(broker, "u"))
    assert (topic.topic, topic.topic_id) == (by_id if version >= BY_ID else by_name)
    (data,) = topic.partitions
    assert (data.partition_index, data.high_watermark) == (1, 1)
    assert data.records
    moved = wanted(broker, "u", 1, offset=1)
    assert asker.ask(fetch(session_id, 3, moved), version).responses == []


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
def test_forgotten_partitions_come_no_more(asker: Asker, broker: Broker, version: int) -> None:
    session_id = begin(asker, wanted(broker, "t"), version=version)
    for index in (0, 1):
        broker.appends.append(broker.topics.partition("t", index), batch(), now_ms=1)
    broker.appends.write_out()
    forgotten = ForgottenTopic(topic="t", topic_id=id_of(broker, "t"), partitions=[0])
    answer = asker.ask(fetch(session_id, 1, forgotten_topics_data=[forgotten]), version)
    assert [one.partition_index for one in answer.responses[0].partitions] == [1]


def test_a_version_without_sessions_begins_none(asker: Asker, broker: Broker) -> None:
    asker.ask(fetch(0, -1, wanted(broker)), 6)
    assert len(broker.fetch_sessions) == 0


def test_refusals_name_no_session(asker: Asker, broker: Broker) -> None:
    session_id = begin(asker, wanted(broker))
    for request, version, code in (
        (fetch(session_id + 1, 1), BY_NAME, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (fetch(session_id, 2), BY_NAME, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (fetch(session_id, 1), BY_ID, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
    ):
        answer = asker.ask(request, version)
        assert ErrorCode(answer.error_code) is code
        assert (answer.session_id, answer.responses) == (0, [])


def test_a_long_poll_of_a_session_that_continued_without_it_is_refused(
    asker: Asker, broker: Broker
) -> None:
    session_id = begin(asker, wanted(broker))
    request = fetch(session_id, 1, max_wait_ms=500)
    later, _ = asker.send(request, BY_NAME)
    assert later is not None
    asker.ask(fetch(session_id, 2, wanted(broker, "u")), BY_NAME)
    broker.appends.append(broker.topics.partition("t", 0), batch(), now_ms=1)
    broker.appends.write_out()
    assert broker.answers.take_answered(0) == [later.pending_id]
    answer = asker.finish(later, request, BY_NAME)
    assert ErrorCode(answer.error_code) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert (answer.session_id, answer.responses) == (session_id, [])


def test_an_id_that_nobody_knew_is_known_once_its_topic_is_made(
    asker: Asker, broker: Broker
) -> None:
    session_id = begin(asker, wanted(broker, "t", 0), wanted(broker, "later", 0), version=BY_ID)
    unknown = [ErrorCode.UNKNOWN_TOPIC_ID]
    assert codes_of(asker.ask(fetch(session_id, 1), BY_ID)) == unknown
    broker.topic_changes._new_id = lambda: UNKNOWN_ID
    broker.admin.create_topic(NewTopic(name="later", partition_count=1))
    assert codes_of(asker.ask(fetch(session_id, 2), BY_ID)) == [ErrorCode.NONE]
    assert codes_of(asker.ask(fetch(session_id, 3), BY_ID)) == []


def test_another_topic_of_the_same_name_is_not_read_under_the_old_id(
    asker: Asker, broker: Broker
) -> None:
    session_id = begin(asker, wanted(broker, "t", 0), version=BY_ID)
    broker.admin.delete_topic(broker.topics.get("t"))
    gone = asker.ask(fetch(session_id, 1), BY_ID)
    assert codes_of(gone) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    broker.admin.create_topic(NewTopic(name="t", partition_count=1))
    broker.appends.append(broker.topics.partition("t", 0), batch(), now_ms=1)
    broker.appends.write_out()
    other = asker.ask(fetch(session_id, 2), BY_ID)
    assert codes_of(other) == [ErrorCode.INCONSISTENT_TOPIC_ID]
    assert not other.responses[0].partitions[0].records
