"""What `ottla mirror` does between rounds: waits, continues, stops."""

import signal

import pytest
from rich.console import Console

from ottla.base.errors import UnreachableError
from ottla.cli.mirror.rounds import CopyOptions, run
from ottla.cli.mirror.text import Totals
from ottla.cli.output import Output
from ottla.cli.terminal import StopAskedError, Stopping
from ottla.mirror.mirror import PartitionReport, RoundReport
from ottla.mirror.plan import Gap


def given(*, follow: bool) -> CopyOptions:
    return CopyOptions(
        topics=(),
        exclude=(),
        mode="exact",
        engine="local",
        follow=follow,
        interval=0.0,
        throttle=None,
        allow_gaps=False,
        skip_damaged=False,
        groups=True,
        name="",
        source_config=None,
        target_config=None,
    )


class Rounds:
    """Rounds that go as told, and then a request to stop."""

    def __init__(self, *outcomes: RoundReport | Exception) -> None:
        self._outcomes = list(outcomes)

    def __call__(self) -> RoundReport:
        if not self._outcomes:
            signal.raise_signal(signal.SIGTERM)
            return RoundReport()
        outcome = self._outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def copied(**more: object) -> RoundReport:
    one = PartitionReport(topic="t", partition=0, from_offset=2, until_offset=9, size=70)
    for name, value in more.items():
        setattr(one, name, value)
    return RoundReport(partitions=[one])


def totals(*, follow: bool) -> Totals:
    return Totals(Console(width=200), "target", Output(), is_following=follow)


def test_a_source_that_went_away_is_waited_for_while_following(
    capsys: pytest.CaptureFixture[str],
) -> None:
    summed = totals(follow=True)
    gone = UnreachableError("host:1: Connection refused")
    with Stopping() as stop:
        run(Rounds(copied(), gone, gone, copied()), given(follow=True), stop, summed)
    summed.finish()
    said = capsys.readouterr()
    assert said.err == "ottla: host:1: Connection refused; trying again\n"
    assert said.out.count("t-0 to 9") == 2
    assert "140 bytes" in said.out


def test_a_source_that_went_away_ends_a_single_round() -> None:
    with Stopping() as stop, pytest.raises(UnreachableError):
        run(Rounds(UnreachableError("gone")), given(follow=False), stop, totals(follow=False))


def test_a_round_that_is_stopped_says_so_and_leaves_with_1(
    capsys: pytest.CaptureFixture[str],
) -> None:
    summed = totals(follow=False)
    with Stopping() as stop:
        run(Rounds(StopAskedError()), given(follow=False), stop, summed)
    with pytest.raises(SystemExit) as left:
        summed.finish()
    assert left.value.code == 1
    assert "stopped; run it again to continue" in capsys.readouterr().out


def test_a_gap_and_a_refusal_are_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    summed = totals(follow=True)
    for _ in range(3):
        summed.add(copied(gaps=[Gap(2, 5)], refusal="it cannot be"))
    with pytest.raises(SystemExit) as left:
        summed.finish()
    assert left.value.code == 1
    said = capsys.readouterr()
    assert said.err.splitlines() == [
        "ottla: t-0: offsets 2 to 4 were deleted from the source; the copy starts after them",
        "ottla: t-0: it cannot be",
    ]
