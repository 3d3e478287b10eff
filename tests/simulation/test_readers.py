"""Any interleaving of changes and reads gives readers a prefix of the log; and would be noticed."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from ottla.base.partitions import TopicPartition
from ottla.embedded.followed import FollowedLog
from ottla.embedded.log import Log
from ottla.embedded.readable import ReadableLog
from ottla.embedded.scanning import Region
from tests.simulation.readers_world import STEPS, ReadersWorld

LEAN = settings(max_examples=25, suppress_health_check=list(HealthCheck))
MORE = settings(max_examples=500, suppress_health_check=list(HealthCheck))


@pytest.mark.slow
def test_readers_see_a_prefix_of_the_log_whatever_comes_between() -> None:
    counts: Counter[str] = Counter()

    @LEAN
    @given(STEPS)
    def readers_see_a_prefix(steps: list[Any]) -> None:
        world = ReadersWorld()
        world.run(steps)
        counts.update(world.counts)

    readers_see_a_prefix()
    for kind in ("read", "scan", "columns", "tail"):
        assert counts[f"records by {kind}"]
    for name in ("records compacted away", "records deleted", "changes within a step"):
        assert counts[name]


@pytest.mark.long
@pytest.mark.slow
@MORE
@given(STEPS)
def test_readers_see_a_prefix_of_the_log_in_many_more_runs(steps: list[Any]) -> None:
    ReadersWorld().run(steps)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Log, FollowedLog])
def test_a_reader_that_leaves_out_what_is_there_is_found(
    monkeypatch: pytest.MonkeyPatch, kind: type[ReadableLog]
) -> None:
    """One that ends where the log's start has moved meanwhile, though it is before the reader."""
    whole_regions = kind.regions

    def regions(log: Any, place: TopicPartition, offset: int, end: int) -> Iterator[Region]:
        start = log.offsets(place.topic)[place.partition][0]
        for region in whole_regions(log, place, offset, end):
            yield region
            if log.offsets(place.topic)[place.partition][0] > start:
                return

    monkeypatch.setattr(kind, "regions", regions)

    @settings(MORE, phases=[Phase.generate], derandomize=True, database=None)
    @given(STEPS)
    def readers_see_a_prefix(steps: list[Any]) -> None:
        ReadersWorld().run(steps)

    with pytest.raises(AssertionError, match="was left out"):
        readers_see_a_prefix()
