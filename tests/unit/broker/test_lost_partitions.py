"""Directories of partitions that are swapped, renamed, doubled or gone: refused, not re-created."""

import itertools
import logging
from collections.abc import Iterator

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, CorruptionError, UserError
from ottla.base.files import FileSystem, join, read_file, remove_if_present
from ottla.base.partitions import CONSUMER_OFFSETS, TopicPartition
from ottla.broker.broker import Broker
from ottla.metadata.deciding.topics import NewTopic, TopicGrowth
from ottla.record.batch import iter_batches
from ottla.record.record import read_records
from ottla.storage.diagnosis.giving_up import give_up
from ottla.storage.files.checkpoints import OffsetCheckpoint
from ottla.storage.files.filenames import (
    CHECKPOINT_HIGH_WATERMARK,
    CHECKPOINT_RECOVERY_POINT,
    CLUSTER_METADATA,
    INTEGRITY,
    PARTITION_METADATA,
)
from ottla.storage.log.offsets import Isolation
from ottla.storage.reading.read_only_directory import ReadOnlyLogDirectory
from ottla.testing import CrashMode, FakeFileSystem, every_crash_point
from tests.support.brokers import NOW_MS, batch, disk, open_broker
from tests.support.metadata import lose_metadata, topics_of

PARTITIONS = [("t", 0), ("t", 1), ("u", 0), (CONSUMER_OFFSETS, 0)]


def stopped(*, is_killed: bool = False) -> FakeFileSystem:
    """A record in each partition, which tells whose it is."""
    files = disk("/d")
    # Ids that differ in one bit only would be taken for one that is damaged.
    broker = open_broker(files, ids=itertools.count(1000, 7919))
    for topic, count in (("t", 2), ("u", 1), (CONSUMER_OFFSETS, 1)):
        broker.admin.create_topic(NewTopic(name=topic, partition_count=count))
    for topic, index in PARTITIONS:
        broker.appends.append(
            broker.topics.partition(topic, index), batch(f"{topic}-{index}".encode()), now_ms=NOW_MS
        )
    broker.close()
    if is_killed:
        broker = open_broker(files.crash(CrashMode.KEEP))
        files = files.crash(CrashMode.KEEP)
        remove_if_present(files, "/d/.kafka_cleanshutdown")
    return files.crash(CrashMode.KEEP)


def value_of(broker: Broker, topic: str, index: int) -> bytes | None:
    """The first record's; raises `ApiError` for a partition that is refused."""
    found = broker.topics.partition(topic, index).log.reader.read(0, 1000, Isolation.HIGH_WATERMARK)
    assert found.records is not None
    return next(read_records(next(iter_batches(found.records.read())))).value


def refused(broker: Broker) -> set[tuple[str, int]]:
    """The partitions that are; all others have their own record."""
    found = {key for key in PARTITIONS if code_of(broker, *key) is ErrorCode.KAFKA_STORAGE_ERROR}
    for topic, index in set(PARTITIONS) - found:
        assert value_of(broker, topic, index) == f"{topic}-{index}".encode()
    return found


def code_of(broker: Broker, topic: str, index: int) -> ErrorCode | None:
    try:
        broker.topics.partition(topic, index)
    except ApiError as error:
        return error.code
    return None


def swap(files: FileSystem, one: str, other: str) -> None:
    for source, target in ((one, "x"), (other, one), ("x", other)):
        files.rename(join("/d", source), join("/d", target))


def remove_partition(files: FileSystem, name: str) -> None:
    path = join("/d", name)
    for file in files.list(path):
        files.remove(join(path, file))
    files.remove_directory(path)


def copy_partition(files: FileSystem, name: str, other: str) -> None:
    files.make_directory(join("/d", other))
    for one in files.list(join("/d", name)):
        copy = files.open(join("/d", other, one), create=True)
        copy.pwrite(read_file(files, join("/d", name, one)), 0)
        copy.close()


def spoil(files: FileSystem, name: str, how: str) -> None:
    files.remove(join("/d", name))
    if how != "deleted":
        file = files.open(join("/d", name), create=True)
        file.pwrite(b"" if how == "emptied" else b"no checkpoint\n", 0)
        file.close()


@pytest.fixture(autouse=True)
def _log_level(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.WARNING):
        yield


@pytest.mark.parametrize("is_killed", [False, True])
def test_swapped_directories_of_two_topics_are_refused_and_the_others_served(
    is_killed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    files = stopped(is_killed=is_killed)
    swap(files, "t-0", "u-0")
    assert refused(open_broker(files)) == {("t", 0), ("u", 0)}
    assert f"t-0 is refused: /d/t-0/{INTEGRITY}: this is the log of u-0" in caplog.text
    swap(again := files.crash(CrashMode.KEEP), "t-0", "u-0")
    assert refused(open_broker(again)) == set()


def test_swapped_directories_are_known_by_their_topic_id_where_kafka_has_been_since(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files = stopped()
    for name in ("t-0", "u-0"):
        files.remove(join("/d", name, INTEGRITY))
    swap(files, "t-0", "u-0")
    assert refused(open_broker(files)) == {("t", 0), ("u", 0)}
    assert "/d/t-0/partition.metadata: this is the id of topic u" in caplog.text


def test_swapped_partitions_of_one_topic_are_refused() -> None:
    files = stopped()
    swap(files, "t-0", "t-1")
    assert refused(open_broker(files)) == {("t", 0), ("t", 1)}


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("key", PARTITIONS)
def test_a_lost_partition_is_refused_at_every_start(
    is_killed: bool, key: tuple[str, int], caplog: pytest.LogCaptureFixture
) -> None:
    files = stopped(is_killed=is_killed)
    name = f"{key[0]}-{key[1]}"
    remove_partition(files, name)
    for _ in range(3):
        caplog.clear()
        broker = open_broker(files)
        assert refused(broker) == {key}
        assert f"{name} is refused: /d/{name} is not there, though recovery-point" in caplog.text
        assert name not in files.list("/d")
        broker.close()
        files = files.crash(CrashMode.KEEP)


@pytest.mark.parametrize("checkpoint", ["deleted", "emptied", "damaged"])
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_lost_partition_is_refused_though_no_recovery_point_names_it(
    checkpoint: str, is_killed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    files = stopped(is_killed=is_killed)
    remove_partition(files, "t-0")
    spoil(files, CHECKPOINT_RECOVERY_POINT, checkpoint)
    for named_by in (CHECKPOINT_HIGH_WATERMARK, CHECKPOINT_RECOVERY_POINT):
        caplog.clear()
        broker = open_broker(files)
        assert refused(broker) == {("t", 0)}
        assert f"/d/t-0 is not there, though {named_by} names it" in caplog.text
        broker.close()
        files = files.crash(CrashMode.KEEP)
    assert give_up(files, "/d", "t-0", None) == 1


def test_a_lost_partition_is_refused_though_its_recovery_point_bears_another_name() -> None:
    files = stopped()
    remove_partition(files, "t-0")
    path = join("/d", CHECKPOINT_RECOVERY_POINT)
    points = OffsetCheckpoint(files, path).read()
    points[TopicPartition("v", 0)] = points.pop(TopicPartition("t", 0))
    OffsetCheckpoint(files, path).write(points)
    for _ in range(2):
        broker = open_broker(files)
        assert refused(broker) == {("t", 0)}
        assert broker.topics.find("v") is None
        broker.close()
        files = files.crash(CrashMode.KEEP)


def test_a_lost_partition_is_refused_though_only_the_metadata_log_names_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files = stopped()
    remove_partition(files, "t-0")
    for name in (CHECKPOINT_RECOVERY_POINT, CHECKPOINT_HIGH_WATERMARK):
        spoil(files, name, "damaged")
    for named_by in (CLUSTER_METADATA, CHECKPOINT_RECOVERY_POINT):
        caplog.clear()
        broker = open_broker(files)
        assert refused(broker) == {("t", 0)}
        assert f"/d/t-0 is not there, though {named_by} names it" in caplog.text
        broker.close()
        files = files.crash(CrashMode.KEEP)


def test_a_lost_partition_can_be_given_up_though_no_recovery_point_names_it() -> None:
    files = stopped()
    remove_partition(files, "t-0")
    spoil(files, CHECKPOINT_RECOVERY_POINT, "damaged")
    assert give_up(files, "/d", "t-0", None) == 1


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_partition_that_has_lost_its_files_is_named_though_no_recovery_point_names_it(
    is_killed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    files = stopped(is_killed=is_killed)
    for file in files.list("/d/t-0"):
        if file != PARTITION_METADATA:
            files.remove(join("/d/t-0", file))
    files.remove(join("/d", CHECKPOINT_RECOVERY_POINT))
    with pytest.raises(CorruptionError, match="offset 0 cannot be read"):
        list(ReadOnlyLogDirectory("/d", files).partition("t", 0).batches.read(0))
    broker = open_broker(files)
    assert broker.topics.partition("t", 0).log.log_end_offset == 1
    assert "it had offsets 0 to 0; they are lost" in caplog.text


def test_what_an_older_high_watermark_names_is_not_lost() -> None:
    """Kafka leaves the file as it is when the last of a directory's logs is deleted."""
    files = stopped()
    remove_partition(files, "u-0")
    lose_metadata(files)
    for name in ("t-0", "t-1", f"{CONSUMER_OFFSETS}-0"):
        remove_partition(files, name)
    OffsetCheckpoint(files, join("/d", CHECKPOINT_RECOVERY_POINT)).write({})
    assert not list(open_broker(files).topics)


def test_a_lost_topic_is_refused_though_no_metadata_log_knows_it() -> None:
    files = stopped()
    remove_partition(files, "u-0")
    lose_metadata(files)
    assert refused(open_broker(files)) == {("u", 0)}


@pytest.mark.parametrize("new_name", ["x-0", "t-7", "t-0.old"])
def test_a_renamed_partition_is_refused_and_what_has_its_files_is_left_alone(new_name: str) -> None:
    files = stopped()
    files.rename("/d/t-0", join("/d", new_name))
    broker = open_broker(files)
    assert refused(broker) == {("t", 0)}
    assert broker.topics.find("x") is None
    assert broker.topics.get("t").partition_count == 2
    assert new_name in files.list("/d")
    files.rename(join("/d", new_name), "/d/t-0")
    assert refused(open_broker(files.crash(CrashMode.KEEP))) == set()


def test_no_new_topic_takes_a_directory_that_is_another_ones() -> None:
    files = stopped()
    files.rename("/d/t-0", "/d/x-0")
    files.rename("/d/u-0", "/d/t-2")
    broker = open_broker(files)
    with pytest.raises(ApiError, match=f"/d/x-0/{INTEGRITY}: this is the log of t-0"):
        broker.admin.create_topic(NewTopic(name="x"))
    with pytest.raises(ApiError, match=f"/d/t-2/{INTEGRITY}: this is the log of u-0"):
        broker.admin.grow_topic(TopicGrowth(name="t", partition_count=3))


def test_a_copy_of_a_directory_is_no_partition() -> None:
    files = stopped()
    copy_partition(files, "t-0", "t-2")
    copy_partition(files, "t-0", "v-0")
    broker = open_broker(files)
    assert refused(broker) == set()
    assert sorted(broker.topics.get("t").partitions) == [0, 1]
    assert broker.topics.find("v") is None


def test_a_lost_partition_that_is_given_up_continues_where_it_ended() -> None:
    files = stopped()
    remove_partition(files, "t-0")
    topic_id = topics_of(files)["t"].topic_id
    assert give_up(files, "/d", "t-0", topic_id) == 1
    broker = open_broker(files)
    assert broker.topics.partition("t", 0).log.log_end_offset == 1
    assert (
        broker.appends.append(
            broker.topics.partition("t", 0), batch(b"more"), now_ms=NOW_MS
        ).first_offset
        == 1
    )
    broker.close()


@pytest.mark.parametrize(
    ("name", "refusal"),
    [
        ("t-1", "/d/t-1 exists, so the partition is not lost"),
        ("v-0", "does not name v-0, so it is not lost"),
        ("nonsense", "nonsense is not a partition"),
    ],
)
def test_only_what_is_lost_is_given_up(name: str, refusal: str) -> None:
    with pytest.raises(UserError, match=refusal):
        give_up(stopped(), "/d", name, None)


def test_a_lost_topic_can_be_deleted_and_made_again() -> None:
    files = stopped()
    remove_partition(files, "u-0")
    broker = open_broker(files)
    broker.admin.delete_topic(broker.topics.get("u"))
    broker.close()
    broker = open_broker(files.crash(CrashMode.KEEP))
    assert broker.topics.find("u") is None
    broker.admin.create_topic(NewTopic(name="u", partition_count=1))
    assert broker.topics.partition("u", 0).log.log_end_offset == 0


@pytest.mark.slow
def test_a_topic_made_again_after_a_deletion_is_not_taken_for_lost_after_a_crash() -> None:
    """The checkpoint that names the deleted one is written again before the new one is due."""
    before = stopped()

    def make_again(disk: FakeFileSystem, _: list[object]) -> None:
        broker = open_broker(disk)
        broker.admin.delete_topic(broker.topics.get("u"))
        broker.admin.create_topic(NewTopic(name="u", partition_count=2))

    ends = set()
    for point in every_crash_point(
        make_again, make_file_system=lambda: before.crash(CrashMode.KEEP), seeds=1
    ):
        broker = open_broker(point.file_system)
        topic = broker.topics.find("u")
        ends.add(None if topic is None else topic.partition_count)
        for index in range(0 if topic is None else topic.partition_count):
            assert code_of(broker, "u", index) is None, point
    assert ends == {None, 1, 2}


def test_a_partition_is_missed_from_its_creation_on() -> None:
    files = stopped()
    broker = open_broker(files)
    broker.admin.delete_topic(broker.topics.get("u"))
    broker.admin.create_topic(NewTopic(name="u", partition_count=2))
    assert b"u 1 0" in read_file(files, join("/d", CHECKPOINT_RECOVERY_POINT))
    crashed = files.crash(CrashMode.KEEP)
    remove_partition(crashed, "u-1")
    assert code_of(open_broker(crashed), "u", 1) is ErrorCode.KAFKA_STORAGE_ERROR


def test_topics_whose_settings_are_lost_are_named(caplog: pytest.LogCaptureFixture) -> None:
    files = stopped()
    lose_metadata(files)
    assert refused(open_broker(files)) == set()
    assert "nothing of topics t, u is deleted or compacted" in caplog.text
    assert "there is no metadata log here" in caplog.text
