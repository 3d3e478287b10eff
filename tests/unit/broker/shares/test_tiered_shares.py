"""Records of a share group that lie in the remote tier only."""

from collections.abc import Iterator

import pytest

from tests.support.share_asking import Member, acquired, begin
from tests.support.tier_reading import LOCAL_START, HeldThreads, TieredBroker


@pytest.fixture
def tiered() -> Iterator[TieredBroker]:
    made = TieredBroker("t")
    begin(made.broker)
    yield made
    made.broker.close()


def test_a_share_group_reads_a_log_from_its_tier_to_its_end(tiered: TieredBroker) -> None:
    a = Member(tiered.broker)
    found: list[int] = []
    while parts := acquired(a.fetch(max_records=10)):
        found += [one for first, last, _ in parts for one in range(first, last + 1)]
    assert found[: LOCAL_START + 10] == list(range(LOCAL_START + 10))


def test_a_fetch_waits_for_the_tier_and_nobody_else_reads_there_meanwhile(
    tiered: TieredBroker,
) -> None:
    held = HeldThreads(tiered.reads)
    a, b = Member(tiered.broker), Member(tiered.broker, "b")
    first, second = a.wait(), b.wait()
    assert len(held.waiting) == 1
    held.run()
    assert acquired(first.answer()) == [(0, 9, 1)]
    b.epoch = 0
    assert acquired(b.fetch()) == []
    assert len(held.waiting) == 1
    held.run()
    assert acquired(b.fetch()) == [(10, 19, 1)]
    assert second.answer() is None, "its session began again"
