"""Our clients beside those of others: how fast each was, and in how much processor time.

Rates are by the clock on the wall, in which neighbours on the machine count; processor time is
that of this process, all threads.
"""

from collections.abc import Iterator, Mapping, Sequence
from time import perf_counter, process_time

from benchmarks.measuring import Samples
from benchmarks.report import Report, Target, add_figure, figures_report

AHEAD_OF_PYTHON = Target(limit=3, unit="times", is_minimum=True)
BESIDE_LIBRDKAFKA = Target(limit=0.5, unit="times", is_minimum=True)

Cost = tuple[float, float]
"""Seconds from the first record to the last, and processor time of the process in them."""


class Stopwatch:
    def __init__(self) -> None:
        self._started = perf_counter(), process_time()

    def read(self) -> Cost:
        return perf_counter() - self._started[0], process_time() - self._started[1]


def compared(
    title: str,
    costs: Mapping[str, Sequence[Cost]],
    counts: Mapping[str, int],
    ours: Mapping[str, str],
) -> Iterator[Report]:
    """Costs of so many records each; `ours` says which of our clients another is compared with."""
    for kind, place in (("rates", 0), ("processor time", 1)):
        report = figures_report(f"{title}, {kind}")
        each = {
            who: Samples(tuple(cost[place] / counts[who] for cost in some))
            for who, some in costs.items()
        }
        for who, samples in each.items():
            if place:
                add_figure(report, who, samples.scaled(1e6), "us each")
            else:
                rates = Samples(tuple(1 / one for one in samples.values))
                add_figure(report, who, rates, "records/s")
        for who in (one for one in ours if one in each):
            target = BESIDE_LIBRDKAFKA if "confluent" in who else AHEAD_OF_PYTHON
            ratio = each[who].over(each[ours[who]])
            add_figure(report, f"{ours[who]} / {who}", ratio, "times", target)
        yield report
