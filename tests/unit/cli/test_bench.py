"""What `ottla bench` prints; how fast anything is, is not asked here."""

import pytest

from ottla.cli.bench.measuring import Figures
from tests.unit.cli.administered import Administered

SMALL = ("bench", "TARGET", "-n", "50", "--latencies", "5", "--partitions", "2")


def test_percentiles_are_those_of_the_single_records() -> None:
    figures = Figures(produce_s=1, consume_s=1, latencies_ms=tuple(map(float, range(100, 0, -1))))
    assert [figures.percentile_ms(one) for one in (50, 99, 100)] == [51.0, 100.0, 100.0]


@pytest.mark.slow
def test_a_target_is_measured_and_left_as_it_was(broker: Administered) -> None:
    topics = broker.lines("topics", "list", "TARGET", "-q")
    (fields,) = broker.json(*SMALL)
    assert (fields["records"], fields["size"], fields["partitions"]) == (50, 100, 2)
    assert fields["latency_ms"].keys() == {"p50", "p90", "p99", "max"}
    assert fields["produce_records_per_s"] > 0 < fields["consume_records_per_s"]
    assert broker.lines("topics", "list", "TARGET", "-q") == topics


@pytest.mark.slow
def test_the_table_has_a_line_for_each_figure(same_broker: Administered) -> None:
    lines = same_broker.lines(*SMALL)
    assert [line.split()[0] for line in lines][:3] == ["produce", "consume", "latency"]


def test_a_directory_that_is_not_there_is_not_made(same_broker: Administered) -> None:
    code, said = same_broker.end("bench", "/no/such/directory")
    assert code == 2
    assert "there is no such directory" in said
