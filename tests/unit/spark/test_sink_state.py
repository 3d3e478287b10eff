"""What a sink keeps in its group, read back, whatever older batches have left beside it."""

import pytest

from ottla.base.errors import UserError
from ottla.client.administration.group_offsets import Committed
from ottla.spark.sink.sink_state import Entry, Phase, SinkState, decode_state, encode_state

SINK = "ottla-sink-q"


def state(batch: int, count: int, topic: str = "t", phase: Phase = Phase.COMMITTING) -> SinkState:
    entries = tuple(
        Entry(task=n, producer_id=10**6 + n, epoch=3, row_count=10**5, size=10**7 + n)
        for n in range(count)
    )
    return SinkState(batch=batch, phase=phase, topic=topic, entries=entries)


@pytest.mark.parametrize("count", [1, 7, 1000])
def test_what_is_written_is_read_back_over_as_many_partitions_as_it_takes(count: int) -> None:
    offsets = encode_state(SINK, state(5, count), 32)
    assert [one.partition for one in offsets] == list(range(len(offsets)))
    assert all(len(one.metadata) <= 4096 for one in offsets)
    assert decode_state(offsets[::-1]) == state(5, count)


def test_the_newest_batch_counts_and_that_it_is_committed_most() -> None:
    long, short = encode_state(SINK, state(5, 500), 32), encode_state(SINK, state(6, 3), 32)
    assert decode_state(short + long[1:]) == state(6, 3)
    done = encode_state(SINK, state(6, 0, phase=Phase.COMMITTED), 32)
    elsewhere = encode_state(SINK, state(5, 2, topic="a"), 32)
    assert decode_state(done + long[1:] + elsewhere) == state(6, 0, phase=Phase.COMMITTED)
    assert decode_state([]) is None


def test_more_tasks_than_there_is_room_for_are_refused() -> None:
    with pytest.raises(UserError, match=r"batch 5: 1000 tasks are too many .* coalesce"):
        encode_state(SINK, state(5, 1000), 2)


@pytest.mark.parametrize("metadata", ["", "no", "{}", "[]", "7"])
def test_offsets_of_somebody_else_are_refused(metadata: str) -> None:
    other = Committed(group=SINK, topic="t", partition=0, offset=3, metadata=metadata)
    with pytest.raises(UserError, match="only the sink may commit to it"):
        decode_state([other])


def test_a_state_of_another_version_is_refused_with_what_to_do() -> None:
    newer = Committed(group=SINK, topic="t", partition=0, offset=3, metadata='{"version":2}')
    with pytest.raises(
        UserError, match=r"the sink's state.*version 2, and this ottla knows 1 only: use the ottla"
    ):
        decode_state([newer])
