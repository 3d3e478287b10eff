"""What is named in the requests of a fetch session (KIP-227), and which one they are of."""

from ottla.base.fetching_session import MAX_EPOCH, FetchingSession

SESSION = 7


def session_of(**offsets: int) -> FetchingSession[str, int]:
    session: FetchingSession[str, int] = FetchingSession()
    session.replace(offsets)
    return session


def asked(session: FetchingSession[str, int]) -> tuple[int, int, list[str], list[str]]:
    named, forgotten = session.named()
    return session.id, session.epoch, named, forgotten


def test_all_is_named_once_and_then_what_changed() -> None:
    session = session_of(a=0, b=0)
    assert asked(session) == (0, 0, ["a", "b"], [])
    session.answered(SESSION)
    session.replace({"a": 5, "b": 0, "c": 0})
    assert asked(session) == (SESSION, 1, ["a", "c"], [])
    session.answered(SESSION)
    session.replace({"a": 5, "c": 0})
    assert asked(session) == (SESSION, 2, [], ["b"])


def test_what_is_put_is_named_and_what_is_removed_is_forgotten() -> None:
    session = session_of(a=0, b=0)
    session.named()
    session.answered(SESSION)
    session.put("a", 3)
    session.remove("b")
    assert asked(session) == (SESSION, 1, ["a"], ["b"])
    session.answered(SESSION)
    session.remove("a")
    session.put("a", 3)
    assert asked(session) == (SESSION, 2, ["a"], [])
    session.answered(SESSION)
    session.put("a", 3)
    assert asked(session) == (SESSION, 3, [], []), "nothing has changed"
    assert session.wanted == {"a": 3}


def test_a_broker_without_room_for_sessions_is_told_everything_each_time() -> None:
    session = session_of(a=0, b=0)
    for _ in range(2):
        assert asked(session) == (0, 0, ["a", "b"], [])
        session.answered(0)


def test_all_is_named_in_the_order_in_which_it_is_wanted() -> None:
    session = session_of(a=0, b=0)
    session.named()
    session.answered(0)
    session.replace({"b": 0, "a": 0})
    assert asked(session) == (0, 0, ["b", "a"], [])


def test_a_lost_session_begins_again_and_frees_the_old_one() -> None:
    session = session_of(a=0)
    session.named()
    session.answered(SESSION)
    session.begin_again()
    assert asked(session) == (SESSION, 0, ["a"], [])


def test_the_last_epoch_is_followed_by_the_first_of_a_session_that_continues() -> None:
    session = session_of()
    session.id, session.epoch = SESSION, MAX_EPOCH
    session.answered(SESSION)
    assert session.epoch == 1
