import pytest

from ottla.cli.recovery_progress import RecoveryProgress
from ottla.testing import FakeClock


def test_a_step_is_shown_once_a_second(capsys: pytest.CaptureFixture[str]) -> None:
    clock = FakeClock()
    progress = RecoveryProgress(clock)
    for number in range(5):
        progress(f"segment {number}")
        clock.advance(600)
    assert capsys.readouterr().err == "recovering segment 2\nrecovering segment 4\n"
