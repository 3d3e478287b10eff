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
    progress.begin()
    progress("closing /d: 1 of 2 logs left")
    assert capsys.readouterr().err == ""
