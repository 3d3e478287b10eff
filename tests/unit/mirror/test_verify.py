"""Verification finds each way in which a copy can be wrong, and nothing where it is right."""

from collections.abc import Callable

import pytest

from ottla.broker.broker import Broker
from ottla.metadata.deciding.topics import NewTopic, TopicGrowth
from ottla.record.layout import CRC_POSITION, LEADER_EPOCH_POSITION
from ottla.storage import scan
from ottla.storage.files.filenames import INTEGRITY
from ottla.testing import FakeFileSystem
from tests.support.brokers import NOW_MS, at, batch
from tests.support.logs import batch as log_batch
from tests.support.mirroring import (
    TARGET,
    SourceLog,
    damage,
    differences,
    mirror_once,
    partition_path,
    target_disk,
    target_on,
    verified,
)

Harm = Callable[[Broker], None]


@pytest.fixture
def source() -> SourceLog:
    source = SourceLog()
    source.create(partitions=2, retention_ms="1000000")
    source.fill(20)
    source.lead_again()
    source.fill(5)
    source.commit("g", {("t", 0): 9})
    return source


@pytest.fixture
def target(source: SourceLog) -> FakeFileSystem:
    files = target_disk()
    mirror_once(source.files, files)
    return files


def test_a_right_copy_has_no_difference(source: SourceLog, target: FakeFileSystem) -> None:
    report = verified(source.files, target)
    assert report.differences == []
    assert (report.topic_count, report.partition_count, report.batch_count) == (1, 2, 25)
    assert report.size == source.log().size
    assert report.group_count == 1


def last_log(broker: Broker) -> str:
    return broker.topics.partition("t", 0).log.segments.active.log.path


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        pytest.param(70, "CRC mismatch", id="a record's bytes"),
        pytest.param(CRC_POSITION, "CRC mismatch", id="a checksum"),
        pytest.param(
            LEADER_EPOCH_POSITION + 3,
            "the target has offsets 0 to 1, leader epoch 255",
            id="a leader epoch",
        ),
        pytest.param(7, "offsets 255 to 256 is out of place", id="a base offset"),
    ],
)
def test_a_damaged_byte_is_found(
    source: SourceLog, target: FakeFileSystem, position: int, expected: str
) -> None:
    path = f"{partition_path(TARGET)}/{0:020}.log"
    damage(target, path, position)
    (found,) = differences(source.files, target)
    assert found.startswith("t-0: ")
    assert expected in found


def test_damage_after_the_first_batch_is_reported_with_its_offset(
    source: SourceLog, target: FakeFileSystem
) -> None:
    log = source.log().segments.values[0].log
    damage(target, f"{partition_path(TARGET)}/{0:020}.log", scan.batch_of(log, 0).size + 70)
    (found,) = differences(source.files, target)
    assert found.startswith(f"t-0: {partition_path(TARGET)}")
    assert "offsets 2 to 3 cannot be read" in found


def cut(broker: Broker) -> None:
    broker.topics.partition("t", 0).log.maintenance.truncate_to(40, now_ms=NOW_MS)


def write(broker: Broker) -> None:
    broker.appends.append(broker.topics.partition("t", 0), batch(b"more"), now_ms=NOW_MS)


def write_elsewhere(broker: Broker) -> None:
    broker.appends.append(broker.topics.partition("t", 1), batch(b"more"), now_ms=NOW_MS)


def replace_the_end(broker: Broker) -> None:
    cut(broker)
    for _ in range(5):
        broker.appends.append(broker.topics.partition("t", 0), batch(b"x", b"y"), now_ms=NOW_MS)


def one_batch_for_two(broker: Broker) -> None:
    cut(broker)
    broker.appends.append(broker.topics.partition("t", 0), batch(*[b"x"] * 10), now_ms=NOW_MS)


def forget_the_front(broker: Broker) -> None:
    broker.topics.partition("t", 0).log.maintenance.delete_records_before(3)


def delete(broker: Broker) -> None:
    broker.admin.delete_topic(broker.topics.get("t"))


def recreate(broker: Broker) -> None:
    delete(broker)
    broker.admin.create_topic(NewTopic(name="t", partition_count=2))


def grow(broker: Broker) -> None:
    broker.admin.grow_topic(TopicGrowth(name="t", partition_count=3))


def configure(broker: Broker) -> None:
    broker.topic_changes.configure(broker.topics.get("t"), lambda _: {"retention.ms": "5"})


def commit_otherwise(broker: Broker) -> None:
    from ottla.coordinator.requests import MemberClaim

    broker.groups.carry_out(
        broker.groups.machines(at(0))[0].delete_offsets("g", [("t", 0)], at(0)), at(0)
    )
    assert broker.groups.machines(at(0))[0].fetch_offsets(MemberClaim(group_id="g"), None) == {}


@pytest.mark.parametrize(
    ("harm", "expected"),
    [
        (cut, "t-0: the target ends at offset 40, 10 before the source"),
        (write, "t-0: the target ends at offset 51, the source at 50"),
        (write_elsewhere, "t-1: the target ends at offset 1, the source at 0"),
        (replace_the_end, "t-0: the source has offsets 40 to 41, leader epoch 1"),
        (one_batch_for_two, "t-0: the source has offsets 40 to 41, leader epoch 1"),
        (forget_the_front, "t-0: the target starts at offset 3, the source at 0"),
        (delete, "t: the target has no such topic"),
        (recreate, "t: the topic's id differs"),
        (grow, "t: 2 partitions; the target has 3"),
        (configure, "t: retention.ms is 1000000 in the source, 5 in the target"),
        (commit_otherwise, "group g: has committed offset 9 of t-0 in the source, nothing in"),
    ],
)
def test_each_kind_of_wrong_copy_is_found(
    source: SourceLog, target: FakeFileSystem, harm: Harm, expected: str
) -> None:
    with target_on(target) as opened:
        harm(opened.broker)
        opened.broker.appends.write_out()
    assert any(one.startswith(expected) for one in differences(source.files, target))


def test_a_copy_that_lags_is_one_only_where_that_is_allowed(
    source: SourceLog, target: FakeFileSystem
) -> None:
    source.fill(3)
    source.delete_before(7)
    source.commit("g", {("t", 0): 12})
    source.commit("h", {("t", 0): 12})
    found = differences(source.files, target)
    assert [one.split(":")[0] for one in found] == ["t-0", "group g", "group h"]
    report = verified(source.files, target, allow_lag=True)
    assert report.differences == []
    assert report.lag == 6


def test_lag_allows_no_other_difference(source: SourceLog, target: FakeFileSystem) -> None:
    source.fill(3)
    damage(target, f"{partition_path(TARGET)}/{0:020}.log", 70)
    assert len(differences(source.files, target, allow_lag=True)) == 1


def test_a_batch_missing_in_the_middle_is_found(source: SourceLog, target: FakeFileSystem) -> None:
    directory = partition_path(TARGET)
    logs = [name for name in target.list(directory) if name.endswith(".log")]
    target.remove(f"{directory}/{logs[2]}")
    (found,) = differences(source.files, target)
    assert "the batches before it are missing; offsets" in found
    # Without integrity files, as after Kafka, only the source shows it.
    for name in target.list(TARGET):
        if target.status(file := f"{TARGET}/{name}/{INTEGRITY}"):
            target.remove(file)
    (found,) = differences(source.files, target)
    assert "the target lacks the batch of offsets" in found


def test_a_compacted_source_may_have_less_but_nothing_else() -> None:
    source, target = SourceLog(), target_disk()
    source.create(cleanup_policy="compact", min_cleanable_dirty_ratio="0.0")
    for number in range(40):
        source.append(b"a%d" % number, b"b%d" % number, keys=(b"k%d" % (number % 3), b"z"))
    source.log().writer.roll(NOW_MS)
    mirror_once(source.files, target)
    source.compact()
    assert differences(source.files, target) == []
    directory = partition_path(TARGET)
    log = next(name for name in target.list(directory) if name.endswith(".log"))
    damage(target, f"{directory}/{log}", 70)
    (found,) = differences(source.files, target)
    assert "CRC mismatch" in found


def test_a_copy_that_lacks_a_record_of_a_compacted_source_is_found() -> None:
    source, target = SourceLog(), target_disk()
    source.create(cleanup_policy="compact", min_cleanable_dirty_ratio="0.0")
    for number in range(40):
        source.append(b"%d" % number, keys=(b"k%d" % (number % 7),))
    source.log().writer.roll(NOW_MS)
    mirror_once(source.files, target)
    source.compact()
    with target_on(target) as opened:
        opened.log("t", 0).maintenance.truncate_to(35, now_ms=NOW_MS)
        for number in range(5):
            opened.log("t", 0).writer.append_as_leader(
                log_batch(b"other %d" % number), leader_epoch=0, now_ms=NOW_MS
            )
        opened.broker.appends.write_out()
    (found,) = differences(source.files, target)
    assert "the target does not have the source's record" in found
