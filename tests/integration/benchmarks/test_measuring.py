"""The arithmetic of measurements, and that a broker that loses records is found out."""

from pathlib import Path

import pytest

from benchmarks.measuring import Samples, figure, percentile, take_turns, touch_file
from benchmarks.report import Target
from benchmarks.wire import Producing
from tests.support.serving import open_broker, serving


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.1234, "0.12"), (5.678, "5.68"), (56.78, "56.8"), (5678.9, "5,679")],
)
def test_figures_have_three_digits_at_the_most_after_them(value: float, text: str) -> None:
    assert figure(value) == text


def test_ratios_are_of_the_same_round() -> None:
    ratio = Samples((2.0, 6.0, 9.0)).over(Samples((1.0, 2.0, 9.0)))
    assert ratio.values == (2.0, 3.0, 1.0)
    assert (ratio.median, ratio.spread) == (2.0, "1.00 to 3.00")


@pytest.mark.parametrize(
    ("target", "value", "verdict"),
    [
        (Target(limit=8, unit="us"), 8.0, "<= 8.00 us: met"),
        (Target(limit=8, unit="us"), 8.1, "<= 8.00 us: MISSED"),
        (Target(limit=50, unit="%", is_minimum=True), 50.0, ">= 50.0 %: met"),
        (Target(limit=50, unit="%", is_minimum=True), 49.0, ">= 50.0 %: MISSED"),
    ],
)
def test_a_target_is_met_or_missed(target: Target, value: float, verdict: str) -> None:
    assert target.verdict(Samples((value,))) == verdict


def test_each_round_begins_with_another_contestant() -> None:
    order: list[str] = []
    contestants = {name: lambda name=name: order.append(name) for name in "abc"}
    take_turns(contestants, 3)
    assert "".join(order) == "abcbcacab"


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(number) for number in range(100, 0, -1)]
    assert (percentile(values, 50), percentile(values, 99)) == (51.0, 100.0)
    assert percentile([7.0], 99) == 7.0


def test_a_touched_file_keeps_what_lies_before(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    touch_file(path, 3_000_000, start=3)
    assert path.read_bytes() == b"abc" + bytes(3_000_000)


def test_requests_that_appended_too_little_are_found_out(tmp_path: Path) -> None:
    with serving(open_broker(tmp_path)) as server:
        producing = Producing(*server.address)
        try:
            producing.sockets(1)[0].sendall(producing.frame)
            producing.sockets(1)[0].recv(producing.answer_size)
            producing.check(1)
            with pytest.raises(RuntimeError, match="after 1 produce requests from 3 on"):
                producing.check(1)
        finally:
            producing.close()
