"""Topics: what they may be called, how large they may be, how they are found."""

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.broker.topics.topic_rules import check_name, topic_config
from ottla.broker.topics.topics import (
    MAX_PARTITION_COUNT,
    NewTopic,
    Topic,
    Topics,
    partition_count_of,
)
from ottla.config.topic import TopicConfig
from ottla.storage.files.known_topics import TopicEntry

ID = Uuid(b"0123456789abcdef")


def topic(name: str, topic_id: Uuid = ID) -> Topic:
    entry = TopicEntry(name=name, topic_id=topic_id, partition_count=1, overrides={})
    return Topic(entry, TopicConfig())


def refusal_of(new: NewTopic) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        partition_count_of(new, default=1, node_id=1)
    return caught.value.code


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 249, "..."])
def test_kafkas_legal_names_are_legal(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "ä", "a\n"])
def test_kafkas_illegal_names_are_refused(name: str) -> None:
    with pytest.raises(ApiError) as caught:
        check_name(name)
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("a.b", ErrorCode.TOPIC_ALREADY_EXISTS),
        ("a_b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_a_taken_name_and_one_that_metrics_would_confuse_are_refused(
    name: str, code: ErrorCode
) -> None:
    topics = Topics()
    topics.add(topic("a.b"))
    with pytest.raises(ApiError) as caught:
        topics.check_new_name(name)
    assert caught.value.code is code


def test_a_topic_is_found_by_name_and_by_id_until_it_is_removed() -> None:
    topics = Topics()
    one = topic("a")
    topics.add(one)
    assert topics.find("a") is topics.find_by_id(ID) is topics.get("a") is one
    topics.remove(one)
    assert topics.find("a") is topics.find_by_id(ID) is None
    assert len(topics) == 0


def test_topics_without_an_id_are_not_found_by_the_id_that_means_none() -> None:
    topics = Topics()
    topics.add(topic("a", ZERO_UUID))
    assert topics.find_by_id(ZERO_UUID) is None


def test_an_unknown_topic_or_partition_is_refused_with_its_code() -> None:
    topics = Topics()
    topics.add(topic("a"))
    for name, index in (("a", 7), ("b", 0)):
        with pytest.raises(ApiError) as caught:
            topics.partition(name, index)
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_minus_one_partition_is_the_brokers_default() -> None:
    assert partition_count_of(NewTopic(name="a"), default=7, node_id=1) == 7
    new = NewTopic(name="a", partition_count=2, replication_factor=1)
    assert partition_count_of(new, default=7, node_id=1) == 2


@pytest.mark.parametrize("count", [0, -2, MAX_PARTITION_COUNT + 1])
def test_impossible_partition_counts_are_refused(count: int) -> None:
    new = NewTopic(name="a", partition_count=count)
    assert refusal_of(new) is ErrorCode.INVALID_PARTITIONS


@pytest.mark.parametrize("factor", [0, -2, 2, 3])
def test_one_broker_holds_one_replica(factor: int) -> None:
    new = NewTopic(name="a", partition_count=1, replication_factor=factor)
    assert refusal_of(new) is ErrorCode.INVALID_REPLICATION_FACTOR


def test_replicas_assigned_to_this_broker_decide_the_count() -> None:
    new = NewTopic(name="a", assignments={0: [1], 1: [1]})
    assert partition_count_of(new, default=7, node_id=1) == 2


@pytest.mark.parametrize(
    ("new", "code"),
    [
        (NewTopic(name="a", assignments={1: [1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic(name="a", assignments={0: [2]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic(name="a", assignments={0: []}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic(name="a", partition_count=1, assignments={0: [1]}), ErrorCode.INVALID_REQUEST),
    ],
)
def test_replicas_that_cannot_be_are_refused(new: NewTopic, code: ErrorCode) -> None:
    assert refusal_of(new) is code


def test_overrides_change_the_defaults_and_nothing_else() -> None:
    config = topic_config(TopicConfig(segment_bytes=1000), {"retention.ms": "5"})
    assert config == TopicConfig(segment_bytes=1000, retention_ms=5)


@pytest.mark.parametrize(
    "overrides", [{"no.such": "1"}, {"retention.ms": "soon"}, {"retention.ms": None}]
)
def test_settings_that_make_no_sense_are_an_invalid_config(
    overrides: dict[str, str | None],
) -> None:
    with pytest.raises(ApiError) as caught:
        topic_config(TopicConfig(), overrides)
    assert caught.value.code is ErrorCode.INVALID_CONFIG
