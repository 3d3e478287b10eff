"""What a mirror decides for one partition, on values alone."""

import pytest

from ottla.base.ids import Uuid
from ottla.mirror.plan import (
    Copy,
    Gap,
    Refusal,
    TargetState,
    check_emptied,
    check_identity,
    check_last,
    differing_record,
    plan_copy,
)
from ottla.mirror.source import Bounds, Selection, SourceTopic
from ottla.record.batch import Batch, batch_at
from ottla.record.builder import RecordBatchBuilder


def batch(*values: bytes, offset: int = 0, epoch: int = 0) -> Batch:
    builder = RecordBatchBuilder(offset, leader_epoch=epoch)
    for value in values:
        builder.append(b"k", value, 1_700_000_000_000)
    return batch_at(builder.build())


def bounds(start: int, end: int, first_batch: int | None = None) -> Bounds:
    first = start if first_batch is None else first_batch
    return Bounds(start=start, end=end, stable=end, first_batch=first)


def copied(end: int, *, start: int = 0) -> TargetState:
    last = batch(b"v", offset=end - 1) if end > start else None
    return TargetState(topic_id=None, start=start, end=end, last=last)


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        pytest.param(
            bounds(0, 9), copied(0), Copy(from_offset=0, until_offset=9), id="nothing copied yet"
        ),
        pytest.param(
            bounds(4, 9),
            copied(0),
            Copy(from_offset=4, until_offset=9, begins=True),
            id="a source that starts later",
        ),
        pytest.param(
            bounds(0, 9), copied(5), Copy(from_offset=5, until_offset=9), id="some of it copied"
        ),
        pytest.param(
            bounds(0, 9), copied(9), Copy(from_offset=9, until_offset=9), id="all of it copied"
        ),
        pytest.param(
            bounds(5, 9), copied(5), Copy(from_offset=5, until_offset=9), id="deleted just so far"
        ),
        pytest.param(
            bounds(5, 9, first_batch=3),
            copied(3, start=3),
            Copy(from_offset=5, until_offset=9),
            id="cut off before the first batch, in whose middle the source starts",
        ),
    ],
)
def test_a_copy_continues_at_the_targets_end(
    source: Bounds, target: TargetState, expected: Copy
) -> None:
    assert plan_copy(source, target, allow_gaps=False) == expected


def test_offsets_deleted_before_they_were_copied_are_reported_exactly() -> None:
    plan = plan_copy(bounds(1200, 1300), copied(1000), allow_gaps=False)
    assert isinstance(plan, Refusal)
    assert "offsets 1,000 to 1,199 were removed" in plan.reason
    assert "--allow-gaps" in plan.reason


def test_an_allowed_gap_begins_the_copy_again_after_it() -> None:
    plan = plan_copy(bounds(12, 20), copied(10), allow_gaps=True)
    assert plan == Copy(from_offset=12, until_offset=20, begins=True, gap=Gap(10, 12))


def test_a_target_that_is_emptied_since_still_knows_what_it_had() -> None:
    plan = plan_copy(bounds(12, 20), copied(10, start=10), allow_gaps=False)
    assert isinstance(plan, Refusal)


def test_a_source_that_ends_before_its_target_was_cut() -> None:
    for allow_gaps in (False, True):
        plan = plan_copy(bounds(0, 7), copied(9), allow_gaps=allow_gaps)
        assert isinstance(plan, Refusal)
        assert "the source ends at offset 7, the target at 9" in plan.reason


def test_a_recreated_topic_is_another_one() -> None:
    one, other = Uuid(b"1" * 16), Uuid(b"2" * 16)
    assert check_identity(one, one) is None
    assert check_identity(None, one) is None
    assert check_identity(one, None) is None
    refusal = check_identity(one, other)
    assert refusal is not None
    assert "re-created" in refusal.reason


@pytest.mark.parametrize(
    "found",
    [
        pytest.param([batch(b"a", b"c", offset=4, epoch=2)], id="another record"),
        pytest.param([batch(b"a", b"b", offset=4, epoch=3)], id="another leader epoch"),
        pytest.param([batch(b"a", b"b", offset=3, epoch=2)], id="another offset"),
        pytest.param([batch(b"a", b"b", b"c", offset=4, epoch=2)], id="one record more"),
        pytest.param([batch(b"a", offset=4, epoch=2)], id="one record less"),
        pytest.param([], id="no batch there"),
    ],
)
def test_histories_that_parted_are_seen_in_the_last_batch(found: list[Batch]) -> None:
    last = batch(b"a", b"b", offset=4, epoch=2)
    assert check_last(last, [last], may_be_compacted=False) is None
    refusal = check_last(last, found, may_be_compacted=False)
    assert refusal is not None
    assert "their histories have diverged" in refusal.reason


def test_compaction_may_take_records_but_not_change_them() -> None:
    last = batch(b"a", b"b", offset=4, epoch=2)
    assert check_last(last, [batch(b"b", offset=5, epoch=2)], may_be_compacted=True) is None
    assert check_last(last, [], may_be_compacted=True) is None
    assert check_last(last, [batch(b"x", offset=5, epoch=2)], may_be_compacted=True) is not None
    assert check_last(last, [batch(b"b", offset=5, epoch=3)], may_be_compacted=True) is not None


def test_the_first_record_that_only_the_source_has_is_found() -> None:
    target = [batch(b"a", b"b", offset=0), batch(b"d", offset=3)]
    assert differing_record([batch(b"b", offset=1), batch(b"d", offset=3)], target) is None
    assert differing_record([batch(b"b", b"c", b"d", offset=1)], target) == 2


def test_patterns_choose_topics() -> None:
    assert Selection().takes("any")
    chosen = Selection(topics=("orders*", "users"), exclude=("*-test",))
    names = ["orders", "orders-eu", "orders-test", "users", "users2"]
    assert [one for one in names if chosen.takes(one)] == ["orders", "orders-eu", "users"]


ID = Uuid(b"1" * 16)


@pytest.mark.parametrize(
    ("source_id", "start", "is_refused"),
    [(None, 0, True), (None, 8, True), (None, 9, False), (ID, 0, False)],
)
def test_an_emptied_copy_of_a_topic_without_an_id_cannot_be_told_from_anothers(
    source_id: Uuid | None, start: int, is_refused: bool
) -> None:
    target = TargetState(topic_id=Uuid(b"2" * 16), start=9, end=9)
    refusal = check_emptied(source_id, bounds(start, 20), target)
    assert (refusal is not None) is is_refused


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ({"cleanup.policy": "compact,delete"}, True),
        ({"cleanup.policy": "delete"}, False),
        ({}, False),
        (None, True),
    ],
)
def test_a_topic_of_unknown_settings_may_be_compacted(
    overrides: dict[str, str] | None, expected: bool
) -> None:
    topic = SourceTopic(name="t", topic_id=None, partition_count=1, overrides=overrides)
    assert topic.is_compacted is expected
