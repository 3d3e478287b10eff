"""Share sessions: epochs, limits, and what ends them."""

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.coordinator.share.sessions import LAST_EPOCH, SessionKey, ShareSessions

TOPIC = Uuid(bytes([1]) * 16)
A, B = SessionKey("g", "a"), SessionKey("g", "b")


def refusal(sessions: ShareSessions, key: SessionKey, epoch: int) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        sessions.find(key, epoch)
    return refused.value.code


def test_a_session_goes_from_epoch_to_epoch() -> None:
    sessions = ShareSessions(10)
    sessions.open(A, "connection")
    assert sessions.find(A, 1).epoch == 2
    assert sessions.find(A, 2).epoch == 3
    assert refusal(sessions, A, 2) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert refusal(sessions, B, 1) is ErrorCode.SHARE_SESSION_NOT_FOUND


def test_after_the_last_epoch_comes_the_first() -> None:
    sessions = ShareSessions(10)
    sessions.open(A, "connection").epoch = LAST_EPOCH
    assert sessions.find(A, LAST_EPOCH).epoch == 1


def test_a_member_that_opens_another_session_has_lost_the_first() -> None:
    sessions = ShareSessions(1)
    sessions.open(A, "first").change([(TOPIC, 0)], [])
    again = sessions.open(A, "second")
    assert (len(sessions), [*again.partitions]) == (1, [])
    assert sessions.disconnected("first") == []
    assert sessions.disconnected("second") == [again]


def test_no_more_sessions_than_may_be() -> None:
    sessions = ShareSessions(1)
    sessions.open(A, "connection")
    with pytest.raises(ApiError) as refused:
        sessions.open(B, "connection")
    assert refused.value.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    sessions.close(A)
    sessions.open(B, "connection")


def test_sessions_end_with_their_connection() -> None:
    sessions = ShareSessions(10)
    first, second = sessions.open(A, "one"), sessions.open(B, "one")
    other = sessions.open(SessionKey("h", "a"), "two")
    assert sessions.disconnected("one") == [first, second]
    assert refusal(sessions, A, 1) is ErrorCode.SHARE_SESSION_NOT_FOUND
    assert sessions.find(other.key, 1) is other
    assert sessions.disconnected("one") == []


def test_partitions_are_added_and_forgotten_and_each_is_first_in_its_turn() -> None:
    session = ShareSessions(10).open(A, "connection")
    session.change([(TOPIC, 0), (TOPIC, 1), (TOPIC, 2), (TOPIC, 3)], [])
    session.change([(TOPIC, 1)], [(TOPIC, 3), (TOPIC, 9)])
    firsts = []
    for _ in range(6):
        order = session.in_turn()
        assert {index for _, index in order} == {0, 1, 2}
        firsts.append(order[0][1])
        session.epoch += 1
    assert sorted(firsts) == [0, 0, 1, 1, 2, 2]
    session.change([], [*session.partitions])
    assert session.in_turn() == ()
