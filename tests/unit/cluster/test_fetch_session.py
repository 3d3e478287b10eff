"""How much a follower asks its leader for."""

from collections.abc import Mapping
from itertools import count

from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.broker.replication.fetches import Fetch
from ottla.cluster.fetch_session import FetchLimits, FollowerSession
from ottla.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData

VERSION = 12
LIMITS = FetchLimits(response_max_bytes=10_000, partition_max_bytes=1000)


def following(count: int, limits: FetchLimits = LIMITS) -> FollowerSession:
    session = FollowerSession(1, VERSION, limits)
    for index in range(count):
        put(session, index)
    return session


NUMBERS = count()


def put(session: FollowerSession, index: int) -> None:
    """Each time from another offset on."""
    place = TopicPartition("orders", index)
    session.put(Fetch(partition=place, follower=1, fetch_offset=next(NUMBERS)), None)


def asked(session: FollowerSession) -> dict[int, int]:
    """The bytes that the next fetch asks for, by partition."""
    request, _ = session.request(broker_epoch=1)
    return {
        one.partition: one.partition_max_bytes
        for topic in request.topics
        for one in topic.partitions
    }


def answer(session: FollowerSession, sizes: Mapping[int, int]) -> None:
    """So many bytes come of each partition, which are taken in."""
    partitions = [
        PartitionData(partition_index=index, high_watermark=0, records=bytes(size))
        for index, size in sizes.items()
    ]
    topic = FetchableTopicResponse(topic="orders", partitions=partitions)
    session.take(FetchResponse(session_id=7, responses=[topic]))
    for index in sizes:
        put(session, index)


def test_partitions_that_keep_up_are_asked_for_as_much_as_is_set() -> None:
    session = following(2)
    assert asked(session) == {0: 1000, 1: 1000}
    answer(session, {0: 400, 1: 0})
    assert asked(session) == {0: 1000, 1: 1000}


def test_those_that_are_far_behind_share_half_an_answer_until_they_keep_up() -> None:
    session = following(3)
    asked(session)
    answer(session, {0: 990, 1: 0, 2: 0})
    assert asked(session) == {0: 5000, 1: 1000, 2: 1000}
    answer(session, {0: 4990, 1: 1000})
    assert asked(session) == {0: 2500, 1: 2500}
    answer(session, {0: 300, 1: 2500})
    assert asked(session) == {0: 1000, 1: 5000}


def test_many_that_are_far_behind_are_asked_for_no_less_than_is_set() -> None:
    session = following(20)
    asked(session)
    answer(session, dict.fromkeys(range(20), 1000))
    assert set(asked(session).values()) == {1000}


def test_a_larger_setting_than_half_an_answer_stays() -> None:
    limits = FetchLimits(response_max_bytes=10_000, partition_max_bytes=8000)
    session = following(1, limits)
    asked(session)
    answer(session, {0: 8000})
    assert asked(session) == {0: 8000}


def test_a_partition_that_comes_to_another_leader_and_back_begins_as_others() -> None:
    session = following(1)
    asked(session)
    answer(session, {0: 1000})
    session.remove(TopicPartition("orders", 0))
    put(session, 0)
    assert asked(session) == {0: 1000}


def test_a_topic_that_was_created_again_is_forgotten_by_its_old_id() -> None:
    session, (old, new) = FollowerSession(1, 15, LIMITS), (Uuid(bytes([n]) * 16) for n in (1, 2))
    place = TopicPartition("orders", 0)
    session.put(Fetch(partition=place, follower=1, fetch_offset=9), old)
    session.request(broker_epoch=1)
    session.take(FetchResponse(session_id=7))
    session.remove(place)
    session.put(Fetch(partition=place, follower=1, fetch_offset=0), new)
    request, _ = session.request(broker_epoch=1)
    assert (request.session_id, request.session_epoch) == (7, 1)
    assert [one.topic_id for one in request.topics] == [new]
    assert [one.topic_id for one in request.forgotten_topics_data] == [old]


def test_after_an_error_all_is_named_and_the_old_session_too_which_the_leader_ends() -> None:
    session = following(2)
    asked(session)
    answer(session, {0: 0})
    session.take(FetchResponse(error_code=71, session_id=0))
    request, _ = session.request(broker_epoch=1)
    assert (request.session_id, request.session_epoch) == (7, 0)
    assert [len(one.partitions) for one in request.topics] == [2]


def test_a_session_goes_on_in_the_version_of_a_level_that_was_raised() -> None:
    session, topic_id = FollowerSession(1, 17, LIMITS), Uuid(bytes([1]) * 16)
    session.put(Fetch(partition=TopicPartition("orders", 0), follower=1, fetch_offset=9), topic_id)
    assert session.request(broker_epoch=1)[1] == 17
    session.take(FetchResponse(session_id=7))
    session.newest = 18
    request, version = session.request(broker_epoch=1)
    assert (version, request.session_id, request.session_epoch) == (18, 7, 1)
