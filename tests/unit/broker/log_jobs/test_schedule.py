"""Checkpoints are written a file at a time, and are whole whatever happens in between."""

from ottla.broker.log_jobs.schedule import CheckpointWriting
from ottla.metadata.deciding.topics import NewTopic
from ottla.storage.directory.log_checkpoints import LogCheckpoints
from ottla.storage.files.checkpoints import OffsetCheckpoint
from ottla.storage.files.filenames import CHECKPOINT_HIGH_WATERMARK, CHECKPOINT_RECOVERY_POINT
from ottla.testing import FakeFileSystem
from tests.support.brokers import NOW_MS, at, batch, open_broker

NAMES = (CHECKPOINT_RECOVERY_POINT, CHECKPOINT_HIGH_WATERMARK)


def points(disk: FakeFileSystem, name: str, path: str) -> set[int]:
    return set(OffsetCheckpoint(disk, f"{path}/{name}").read().values())


def test_each_slice_writes_at_most_one_file() -> None:
    disk = FakeFileSystem()
    broker = open_broker(disk, "/d", "/e")
    topic = broker.admin.create_topic(NewTopic(name="t", partition_count=4))
    for partition in topic.partitions.values():
        broker.appends.append(partition, batch(b"a", b"b"), now_ms=NOW_MS)
    broker.appends.write_out()
    for partition in topic.partitions.values():
        partition.log.writer.flush()
    writing = CheckpointWriting(broker.directories, LogCheckpoints.write_in_steps)
    places = [(name, path) for path in ("/d", "/e") for name in NAMES]
    written: list[tuple[str, str]] = []
    is_left = True
    while is_left:
        is_left = writing.run_slice(at(0))
        new = [one for one in places if one not in written and points(disk, *one) == {2}]
        assert len(new) <= 1
        written += new
    assert written == places


def test_a_topic_that_is_deleted_in_between_is_not_found_again_by_its_name() -> None:
    disk = FakeFileSystem()
    broker = open_broker(disk)
    broker.admin.create_topic(NewTopic(name="t", partition_count=1))
    broker.appends.append(broker.topics.partition("t", 0), batch(b"a", b"b"), now_ms=NOW_MS)
    broker.appends.write_out()
    broker.topics.partition("t", 0).log.writer.flush()
    writing = CheckpointWriting(broker.directories, LogCheckpoints.write_in_steps)
    while OffsetCheckpoint(disk, f"/d/{CHECKPOINT_RECOVERY_POINT}").read() != {("t", 0): 2}:
        assert writing.run_slice(at(0))
    broker.admin.delete_topic(broker.topics.get("t"))
    while writing.run_slice(at(0)):
        pass
    broker.admin.create_topic(NewTopic(name="t", partition_count=1))
    assert OffsetCheckpoint(disk, f"/d/{CHECKPOINT_RECOVERY_POINT}").read().get(("t", 0), 0) == 0
