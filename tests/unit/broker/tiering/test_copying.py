"""Rolled segments are copied to the tier, each once, and what a restart finds is what was known."""

from contextlib import closing

from ottla.storage.remote.segment_metadata import SegmentState
from tests.support.brokers import disk
from tests.support.tier_jobs import (
    Moment,
    broker_with_tier,
    fill,
    remote_logs,
    tiered_topic,
    work,
)

FINISHED = SegmentState.COPY_SEGMENT_FINISHED


def test_rolled_segments_are_copied_in_order_and_the_active_one_is_not() -> None:
    moment = Moment()
    with closing(broker_with_tier(disk("/d"))) as broker:
        partition = tiered_topic(broker)
        fill(broker, partition, 35, moment=moment)
        work(broker, moment)
        index = remote_logs(broker).index_of(broker.topics.get("orders").topic_id, 0)
        assert index is not None
        ranges = [(one.start_offset, one.end_offset, one.state) for one in index.segments()]
        assert ranges == [(0, 9, FINISHED), (10, 19, FINISHED), (20, 29, FINISHED)]
        assert partition.log.offsets.highest_remote_offset == 29
        assert work(broker, moment) == 0
