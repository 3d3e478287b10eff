"""Topics: how they are found."""

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.broker.topics.topics import Topic, Topics
from ottla.config.topic import TopicConfig
from ottla.metadata.image import NO_PARTITION, TopicImage

ID = Uuid(b"0123456789abcdef")


def topic(name: str, topic_id: Uuid = ID) -> Topic:
    entry = TopicImage(name, topic_id, {0: NO_PARTITION})
    return Topic(entry, TopicConfig())


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
