"""What is named in the requests of a fetch session (KIP-227)."""

from ottla.base.partitions import TopicPartition
from ottla.client.consumer.fetch_session import LAST_EPOCH, FetchSession
from ottla.client.reading import FetchFrom

SESSION = 7


def wanted(**offsets: int) -> list[FetchFrom]:
    return [
        FetchFrom(topic=topic, partition=0, offset=offset, max_size=1)
        for topic, offset in offsets.items()
    ]


def test_all_is_named_once_and_then_what_changed() -> None:
    session = FetchSession()
    first = session.next_fetch(wanted(a=0, b=0))
    assert (first.session_id, first.epoch, len(first.named)) == (0, 0, 2)
    session.answered(SESSION)
    second = session.next_fetch(wanted(a=5, b=0, c=0))
    assert (second.session_id, second.epoch) == (SESSION, 1)
    assert [one.topic for one in second.named] == ["a", "c"]
    session.answered(SESSION)
    third = session.next_fetch(wanted(a=5, c=0))
    assert (third.epoch, third.named, third.forgotten) == (2, (), (TopicPartition("b", 0),))


def test_a_broker_without_room_for_sessions_is_told_everything_each_time() -> None:
    session = FetchSession()
    for _ in range(2):
        asked = session.next_fetch(wanted(a=0, b=0))
        assert (asked.session_id, asked.epoch, len(asked.named)) == (0, 0, 2)
        session.answered(0)


def test_a_lost_session_begins_again_and_frees_the_old_one() -> None:
    session = FetchSession()
    session.next_fetch(wanted(a=0))
    session.answered(SESSION)
    session.lost()
    again = session.next_fetch(wanted(a=0))
    assert (again.session_id, again.epoch, len(again.named)) == (SESSION, 0, 1)


def test_the_last_epoch_is_followed_by_the_first_of_a_session_that_continues() -> None:
    session = FetchSession(session_id=SESSION, epoch=LAST_EPOCH)
    session.answered(SESSION)
    assert session.epoch == 1
