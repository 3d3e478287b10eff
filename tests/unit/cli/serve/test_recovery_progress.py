import pytest

from ottla.cli.serve.recovery_progress import RecoveryProgress
from ottla.testing import FakeClock


def test_a_step_is_shown_once_a_second(capsys: pytest.CaptureFixture[str]) -> None:
    clock = FakeClock()
    progress = RecoveryProgress(clock)
    for number in range(5):
        progress(f"recovering segment {number}")
        clock.advance(600)
    assert capsys.readouterr().err == "recovering segment 2\nrecovering segment 4\n"


def test_a_stop_that_is_quick_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    clock = FakeClock()
    progress = RecoveryProgress(clock)
    clock.advance(60_000)
    progress.begin_stop()
    progress("closing /d: 1 of 2 logs left")
    assert capsys.readouterr().err == ""


def test_steps_of_a_start_that_are_shown_are_noted_and_none_of_a_stop() -> None:
    clock, noted = FakeClock(), list[str]()
    progress = RecoveryProgress(clock, noted.append)
    progress("recovering segment 0")
    clock.advance(1000)
    progress("recovering segment 1")
    progress.begin_stop()
    clock.advance(1000)
    progress("closing /d: 1 of 2 logs left")
    assert noted == ["recovering segment 1"]
