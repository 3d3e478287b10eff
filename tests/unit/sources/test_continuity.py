"""What counts as lost, how it is named, and where reading continues."""

import logging
from typing import Any

import pytest

from ottla.base.errors import UserError
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.sources.log_source import LogPartition
from ottla.sources.stream.continuity import Continuation, LossKind, Position, continued, report

PLACE = TopicPartition("orders", 3)
OLD_ID, NEW_ID = Uuid(b"1" * 16), Uuid(b"2" * 16)


def partition(start: int, end: int, **more: Any) -> LogPartition:
    fields = {"topic_id": OLD_ID, "leader_epoch": 1, **more}
    return LogPartition(topic="orders", partition=3, start_offset=start, end_offset=end, **fields)


def after(
    offset: int, now: LogPartition | None, parts_at: int | None = None
) -> tuple[int | None, LossKind | None, tuple[int, int | None] | None]:
    found = continued(PLACE, Position(offset=offset, topic_id=OLD_ID), now, parts_at)
    loss = found.loss
    if loss is None:
        return found.offset, None, None
    assert loss.continues_at == found.offset
    return found.offset, loss.kind, (loss.from_offset, loss.until_offset)


@pytest.mark.parametrize("offset", [3, 5, 9])
def test_a_log_that_has_the_offset_continues_from_it(offset: int) -> None:
    assert after(offset, partition(3, 9)) == (offset, None, None)


def test_offsets_of_an_open_transaction_are_no_loss() -> None:
    assert after(12, partition(3, 9, log_end_offset=15)) == (12, None, None)


def test_what_lies_below_the_logs_start_was_removed() -> None:
    assert after(5, partition(8, 9)) == (8, LossKind.REMOVED, (5, 8))
    assert after(5, partition(8, 9, first_segment_offset=8)) == (8, LossKind.RETENTION, (5, 8))
    found = after(5, partition(8, 9, first_segment_offset=6))
    assert found == (8, LossKind.DELETE_RECORDS, (5, 8))


def test_a_log_that_ends_before_the_offset_was_truncated() -> None:
    assert after(12, partition(3, 9)) == (9, LossKind.TRUNCATED, (9, 12))


def test_a_log_that_grew_again_is_read_from_where_it_was_cut() -> None:
    assert after(12, partition(3, 20), parts_at=7) == (7, LossKind.TRUNCATED, (7, 12))
    assert after(12, partition(9, 20), parts_at=7) == (9, LossKind.TRUNCATED, (7, 12))


def test_a_recreated_topic_is_read_from_its_start_even_where_offsets_would_fit() -> None:
    now = partition(2, 20, topic_id=NEW_ID)
    assert after(12, now, parts_at=None) == (2, LossKind.RECREATED, (12, None))


def test_ids_that_nobody_reported_are_not_compared() -> None:
    assert after(5, partition(3, 9, topic_id=None)) == (5, None, None)


def test_a_partition_that_is_gone_has_nowhere_to_continue() -> None:
    assert after(5, None) == (None, LossKind.GONE, (5, None))


def test_a_loss_is_an_error_that_names_the_offsets_and_the_cause() -> None:
    found = [continued(PLACE, Position(offset=5), partition(8, 9, first_segment_offset=8))]
    with pytest.raises(UserError) as raised:
        report(losses(found), fail=True)
    assert str(raised.value) == (
        "orders-3: offsets 5 to 7 are lost, retention removed them "
        "(failOnDataLoss=false reads on at offset 8)"
    )


def test_a_loss_that_is_allowed_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    found = [continued(PLACE, Position(offset=5), one) for one in (partition(8, 9), None)]
    with caplog.at_level(logging.WARNING):
        report(losses(found), fail=False)
    assert caplog.messages == [
        "orders-3: offsets 5 to 7 are lost, retention or DeleteRecords removed them; "
        "reading continues at offset 8",
        "orders-3: offsets from 5 on are lost, the partition is no longer there; "
        "the partition is no longer read",
    ]


def losses(found: list[Continuation]) -> list[Any]:
    return [one.loss for one in found]
