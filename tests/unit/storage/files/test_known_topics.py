"""The topics that a directory's metadata log has, for those who read the directory."""

import pytest

from ottla.metadata.deciding.topics import NewTopic
from ottla.metadata.image import TopicImage
from ottla.metadata.records import RegisterBrokerRecord
from ottla.storage.files.known_topics import (
    NO_TOPICS,
    KnownTopics,
    read_known_topics,
)
from tests.support.brokers import disk, id_of, open_broker
from tests.support.metadata import write_records


def test_each_topic_is_known_with_its_id_count_and_settings() -> None:
    files = disk("/d")
    broker = open_broker(files)
    new = NewTopic(name="t", partition_count=3, overrides={"retention.ms": "-1"})
    topic_id = broker.admin.create_topic(new).topic_id
    known = read_known_topics(files, "/d")
    entry = known.entries["t"]
    assert (entry.topic_id, entry.partition_count) == (topic_id, 3)
    assert entry.configs == {"retention.ms": "-1"}
    assert [known.still_has("t", index) for index in (0, 2, 3)] == [True, True, False]
    assert not known.still_has("u", 0)
    assert known.owner(topic_id, "other") == "t"
    assert known.owner(id_of(5), "t") is None
    assert known.owner(bytes(16), "t") == "t"


def test_a_deleted_topic_is_gone_by_its_id() -> None:
    files = disk("/d")
    broker = open_broker(files)
    topic = broker.admin.create_topic(NewTopic(name="t"))
    broker.admin.delete_topic(topic)
    known = read_known_topics(files, "/d")
    assert (known.entries, known.gone) == ({}, {topic.topic_id})


def test_without_a_metadata_log_every_partition_counts() -> None:
    files = disk("/d")
    open_broker(files).close()
    assert read_known_topics(files, "/d") is NO_TOPICS
    assert NO_TOPICS.still_has("t", 7)


def test_the_log_of_several_brokers_does_not_say_which_partitions_are_here() -> None:
    files = disk("/d")
    open_broker(files).close()
    for number in (1, 2):
        node = RegisterBrokerRecord(broker_id=number, incarnation_id=id_of(number))
        write_records(files, node)
    assert not read_known_topics(files, "/d").is_found


@pytest.mark.parametrize(("text", "is_tiered"), [("true", True), (" TRUE", True), ("false", False)])
def test_a_topic_is_tiered_if_it_is_known_to_be(text: str, is_tiered: bool) -> None:
    entry = TopicImage("t", id_of(1), {}, {"remote.storage.enable": text})
    known = KnownTopics(entries={"t": entry})
    assert known.is_tiered("t") is is_tiered
    assert not known.is_tiered("u")
    assert not NO_TOPICS.is_tiered("t")
