"""Rounds of a mirror from a directory whose broker lives, into one of its own."""

import pytest

from ottla.base.errors import UserError
from ottla.base.files import join
from ottla.base.partitions import CONSUMER_OFFSETS
from ottla.coordinator.requests import MemberClaim
from ottla.metadata.deciding.topics import TopicGrowth
from ottla.mirror.directory_source import DirectorySource
from ottla.mirror.mirror import Mirror, MirrorOptions
from ottla.mirror.throttle import Throttle
from ottla.storage.files.filenames import CLUSTER_METADATA_DIRECTORY, METADATA_MARK
from ottla.storage.log.offsets import Isolation
from ottla.testing import FakeClock, FakeFileSystem
from tests.support.brokers import NOW_MS, at, batch
from tests.support.mirroring import (
    SOURCE,
    SourceLog,
    assert_is_mirrored,
    damage,
    differences,
    mirror_once,
    mirror_round,
    target_disk,
    target_on,
)


@pytest.fixture
def source() -> SourceLog:
    source = SourceLog()
    source.create()
    return source


@pytest.fixture
def target() -> FakeFileSystem:
    return target_disk()


def test_batches_come_over_byte_for_byte_and_again_nothing(
    source: SourceLog, target: FakeFileSystem
) -> None:
    source.fill(30)
    source.lead_again()
    source.fill(3)
    report = mirror_once(source.files, target)
    assert report.refusals == {}
    assert report.size == source.log().size
    assert_is_mirrored(source.files, target)
    assert mirror_once(source.files, target).size == 0
    source.fill(5)
    assert mirror_once(source.files, target).size > 0
    assert_is_mirrored(source.files, target)


def test_ids_settings_partitions_and_leader_epochs_are_the_sources(
    source: SourceLog, target: FakeFileSystem
) -> None:
    source.create("other", 3, retention_ms="1234567", cleanup_policy="compact,delete")
    source.fill(2, topic="other", partition=2)
    source.lead_again("other", 2)
    source.fill(2, topic="other", partition=2)
    mirror_once(source.files, target)
    with target_on(target) as opened:
        topic = opened.broker.topics.get("other")
        known = source.broker.topics.get("other")
        assert topic.topic_id == known.topic_id
        assert topic.overrides == known.overrides
        assert topic.partition_count == 3
        ours = opened.log("other", 2).epochs.entries
        assert ours == source.log("other", 2).epochs.entries


def test_settings_that_changed_and_partitions_that_came_are_followed(
    source: SourceLog, target: FakeFileSystem
) -> None:
    source.create("other")
    with target_on(target) as opened:
        mirror_round(source.files, opened)
        source.broker.admin._store.configure(source.broker.topics.get("t"), {"retention.ms": "7"})
        source.broker.admin.grow_topic(TopicGrowth(name="other", partition_count=2))
        source.create("third")
        source.fill(1, topic="other", partition=1)
        source.fill(1, topic="third")
        mirror_round(source.files, opened)
    assert_is_mirrored(source.files, target)


def test_only_chosen_topics_come_and_never_internal_ones(
    source: SourceLog, target: FakeFileSystem
) -> None:
    from ottla.mirror.source import Selection

    source.create("orders")
    source.create("orders-test")
    source.commit("g", {("t", 0): 0})
    selection = Selection(topics=["orders*"], exclude=["*-test"])
    mirror_once(source.files, target, selection=selection)
    with target_on(target) as opened:
        assert [one.name for one in opened.broker.topics] == ["orders"]


def test_transactions_end_as_in_the_source(source: SourceLog, target: FakeFileSystem) -> None:
    source.append(b"a", producer=7)
    source.append(b"b", producer=8)
    source.fill(10)
    source.end(7, commit=False)
    source.fill(10)
    source.append(b"c", producer=8)
    with target_on(target) as opened:
        mirror_round(source.files, opened)
        log, known = opened.log("t", 0), source.log()
        assert log.last_stable_offset == known.last_stable_offset < known.log_end_offset
        assert log.producers.entries == known.producers.entries
        source.end(8, commit=True)
        source.fill(1)
        mirror_round(source.files, opened)
        assert log.last_stable_offset == known.last_stable_offset == known.log_end_offset
        whole = (known.log_start_offset, known.log_end_offset)
        assert (
            log.reader.aborted_transactions(*whole)
            == known.reader.aborted_transactions(*whole)
            != []
        )
    assert_is_mirrored(source.files, target)


def test_a_log_that_starts_in_the_middle_of_a_batch_does_so_in_the_copy(
    source: SourceLog, target: FakeFileSystem
) -> None:
    source.fill(20)
    source.delete_before(13)
    with target_on(target) as opened:
        mirror_round(source.files, opened)
        log = opened.log("t", 0)
        assert log.log_start_offset == 13
        assert log.segments.first.base_offset == 12
        assert log.reader.read(13, 1, Isolation.LOG_END).records is not None
    assert_is_mirrored(source.files, target)


def test_what_the_source_deletes_is_deleted_in_the_copy(
    source: SourceLog, target: FakeFileSystem
) -> None:
    source.fill(40)
    with target_on(target) as opened:
        mirror_round(source.files, opened)
        count = len(opened.log("t", 0).segments.values)
        source.delete_before(51)
        mirror_round(source.files, opened)
        log = opened.log("t", 0)
        assert log.log_start_offset == 51
        assert len(log.segments.values) < count
    assert_is_mirrored(source.files, target)


def test_all_of_a_log_may_have_been_deleted(source: SourceLog, target: FakeFileSystem) -> None:
    source.fill(4)
    source.delete_before(8)
    mirror_once(source.files, target)
    assert_is_mirrored(source.files, target)
    source.fill(1)
    mirror_once(source.files, target)
    assert_is_mirrored(source.files, target)


def test_records_deleted_before_they_were_copied_stop_the_partition_until_it_is_allowed(
    source: SourceLog, target: FakeFileSystem
) -> None:
    source.create("other")
    source.fill(5)
    mirror_once(source.files, target)
    source.fill(5)
    source.fill(1, topic="other")
    source.delete_before(13)
    report = mirror_once(source.files, target)
    assert list(report.refusals) == ["t-0"]
    assert "offsets 10 to 12 were removed" in report.refusals["t-0"]
    assert [one.size > 0 for one in report.partitions] == [True, False]
    report = mirror_once(source.files, target, allow_gaps=True)
    (gap,) = report.partitions[1].gaps
    assert (gap.from_offset, gap.until_offset) == (10, 13)
    assert_is_mirrored(source.files, target)


def test_a_source_that_was_cut_is_refused(source: SourceLog, target: FakeFileSystem) -> None:
    source.fill(5)
    mirror_once(source.files, target)
    source.log().maintenance.truncate_to(6, now_ms=NOW_MS)
    report = mirror_once(source.files, target)
    assert "the source ends at offset 6, the target at 10" in report.refusals["t-0"]


def test_a_source_that_continued_otherwise_is_refused_and_the_target_stays(
    source: SourceLog, target: FakeFileSystem
) -> None:
    source.fill(5)
    mirror_once(source.files, target)
    source.log().maintenance.truncate_to(8, now_ms=NOW_MS)
    source.append(b"other", b"values")
    source.fill(3)
    report = mirror_once(source.files, target)
    assert "their histories have diverged" in report.refusals["t-0"]
    with target_on(target) as opened:
        assert opened.log("t", 0).log_end_offset == 10


def test_a_target_that_somebody_wrote_to_is_refused(
    source: SourceLog, target: FakeFileSystem
) -> None:
    source.fill(5)
    with target_on(target) as opened:
        mirror_round(source.files, opened)
        opened.broker.appends.append(
            opened.broker.topics.partition("t", 0), batch(b"mine"), now_ms=NOW_MS
        )
        opened.broker.appends.write_out()
        report = mirror_round(source.files, opened)
        assert "another program wrote to the target" in report.refusals["t-0"]
        source.fill(3)
        report = mirror_round(source.files, opened)
        assert "their histories have diverged" in report.refusals["t-0"]


def test_a_recreated_topic_is_refused(source: SourceLog, target: FakeFileSystem) -> None:
    source.fill(5)
    mirror_once(source.files, target)
    source.broker.admin.delete_topic(source.broker.topics.get("t"))
    source.create()
    source.fill(9)
    report = mirror_once(source.files, target)
    assert "re-created" in report.refusals["t"]


def test_an_id_that_another_topic_of_the_target_has_is_refused(
    source: SourceLog, target: FakeFileSystem
) -> None:
    from ottla.metadata.deciding.topics import NewTopic

    with target_on(target) as opened:
        taken = source.broker.topics.get("t").topic_id
        opened.broker.admin.create_topic(NewTopic(name="mine", topic_id=taken))
        report = mirror_round(source.files, opened)
        assert "Topic 'mine' has the id" in report.refusals["t"]


def test_a_damaged_batch_stops_its_partition_before_it_is_copied(
    source: SourceLog, target: FakeFileSystem
) -> None:
    source.fill(30)
    segment = source.log().segments.values[1]
    damage(source.files, segment.log.path, 80)
    report = mirror_once(source.files, target)
    assert "t-0" in report.refusals
    with target_on(target) as opened:
        assert opened.log("t", 0).log_end_offset <= segment.base_offset


def test_groups_offsets_are_committed_once(source: SourceLog, target: FakeFileSystem) -> None:
    source.fill(5)
    source.commit("g", {("t", 0): 6})
    source.commit("h", {("t", 0): 10})
    assert mirror_once(source.files, target).commit_count == 2
    assert mirror_once(source.files, target).commit_count == 0
    source.commit("g", {("t", 0): 8})
    assert mirror_once(source.files, target).commit_count == 1
    assert_is_mirrored(source.files, target)
    with target_on(target) as opened:
        found = opened.broker.groups.machines(at(0))[0].fetch_offsets(
            MemberClaim(group_id="g"), None
        )
        committed = found["t", 0].committed
        assert committed is not None
        assert (committed.offset, committed.metadata) == (8, "m")


def test_a_round_may_leave_the_groups_to_another(source: SourceLog, target: FakeFileSystem) -> None:
    source.commit("g", {("t", 0): 0})
    throttle = Throttle(None, FakeClock(), lambda _: None)
    with target_on(target) as opened:
        sides = DirectorySource(SOURCE, source.files), opened
        mirror = Mirror(*sides, MirrorOptions(), throttle=throttle)
        assert mirror.run_round(with_groups=False).commit_count == 0
        assert mirror.run_round().commit_count == 1


def test_offsets_of_a_refused_partition_are_not_committed(
    source: SourceLog, target: FakeFileSystem
) -> None:
    source.fill(5)
    mirror_once(source.files, target)
    source.log().maintenance.truncate_to(6, now_ms=NOW_MS)
    source.commit("g", {("t", 0): 6})
    assert mirror_once(source.files, target).commit_count == 0


def test_without_groups_there_is_no_topic_for_them(
    source: SourceLog, target: FakeFileSystem
) -> None:
    source.commit("g", {("t", 0): 0})
    mirror_once(source.files, target, with_groups=False)
    with target_on(target) as opened:
        assert opened.broker.topics.find(CONSUMER_OFFSETS) is None


def test_a_compacted_source_leaves_gaps_and_continues(target: FakeFileSystem) -> None:
    source = SourceLog()
    source.create(cleanup_policy="compact", min_cleanable_dirty_ratio="0.0")
    for number in range(40):
        source.append(b"%d" % number, keys=(b"k%d" % (number % 3),))
    with target_on(target) as opened:
        mirror_round(source.files, opened)
        for number in range(40):
            source.append(b"%d" % number, keys=(b"k%d" % (number % 3),))
        source.log().writer.roll(NOW_MS)
        source.compact()
        source.append(b"last", keys=(b"k9",))
        report = mirror_round(source.files, opened)
        assert report.refusals == {}
        assert report.size < source.log().size + 40 * 80
    assert differences(source.files, target) == []


def test_offsets_at_the_end_that_hold_nothing_are_skipped(target: FakeFileSystem) -> None:
    source = SourceLog()
    source.create(cleanup_policy="compact", min_cleanable_dirty_ratio="0.0")
    source.append(b"v", keys=(b"a",))
    source.append(b"x", producer=7, keys=(b"b",))
    source.end(7, commit=False)
    source.log().writer.roll(NOW_MS, base_offset=9)
    source.log().offsets.appended(9)
    source.log().writer.write_out()
    with target_on(target) as opened:
        mirror_round(source.files, opened)
        assert opened.log("t", 0).log_end_offset == 9
    assert_is_mirrored(source.files, target)
    source.append(b"w", keys=(b"c",))
    mirror_once(source.files, target)
    assert_is_mirrored(source.files, target)


def test_a_target_in_use_is_refused(source: SourceLog, target: FakeFileSystem) -> None:
    with target_on(target), pytest.raises(UserError, match="in use"):
        mirror_once(source.files, target)


def test_a_batch_larger_than_the_segments_of_its_topic_is_named(
    source: SourceLog, target: FakeFileSystem
) -> None:
    source.broker.admin._store.configure(source.broker.topics.get("t"), {})
    source.append(b"x" * 5000)
    source.broker.admin._store.configure(source.broker.topics.get("t"), {"segment.bytes": "1000"})
    report = mirror_once(source.files, target)
    assert "segment.bytes" in report.refusals["t-0"]


def test_where_a_source_does_not_say_its_settings_the_copy_loses_nothing_until_it_does(
    source: SourceLog, target: FakeFileSystem
) -> None:
    source.fill(3)
    source.files.rename(join(SOURCE, CLUSTER_METADATA_DIRECTORY), join(SOURCE, "elsewhere"))
    source.files.remove(join(SOURCE, METADATA_MARK))
    mirror_once(source.files, target)
    with target_on(target) as opened:
        assert "no metadata log here" in opened.broker.unconfirmed.unknown["t"]
    source.files.rename(join(SOURCE, "elsewhere"), join(SOURCE, CLUSTER_METADATA_DIRECTORY))
    mirror_once(source.files, target)
    with target_on(target) as opened:
        assert not opened.broker.unconfirmed.unknown
