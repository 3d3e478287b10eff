"""Who may work on a log: the cleaner, or those who cut, move and delete it."""

from ottla.broker.log_jobs.cleaning_state import Aborted, CleaningStates, InProgress, Paused

KEY = ("t", 0)


def stop_into(stopped: list[str]) -> CleaningStates:
    states = CleaningStates()
    states.begin(KEY, lambda: stopped.append("stopped"))
    return states


def test_a_pass_that_nobody_disturbs_is_wanted_at_its_end() -> None:
    stopped: list[str] = []
    states = stop_into(stopped)
    assert isinstance(states.get(KEY), InProgress)
    assert states.end(KEY)
    assert states.is_free(KEY)
    assert not stopped


def test_a_pause_stops_the_pass_under_way_and_stays_when_it_has_ended() -> None:
    stopped: list[str] = []
    states = stop_into(stopped)
    states.pause(KEY)
    assert stopped == ["stopped"]
    assert states.get(KEY) == Aborted(1)
    assert not states.end(KEY)
    assert states.get(KEY) == Paused(1)
    states.resume(KEY)
    assert states.is_free(KEY)


def test_pauses_count() -> None:
    states = CleaningStates()
    states.pause(KEY)
    states.pause(KEY)
    states.resume(KEY)
    assert states.get(KEY) == Paused(1)
    states.resume(KEY)
    assert states.is_free(KEY)


def test_a_pause_that_ends_before_the_pass_does_leaves_the_log_free() -> None:
    stopped: list[str] = []
    states = stop_into(stopped)
    states.pause(KEY)
    states.resume(KEY)
    assert states.get(KEY) == Aborted(0)
    assert not states.end(KEY)
    assert states.is_free(KEY)
    assert len(stopped) == 1
