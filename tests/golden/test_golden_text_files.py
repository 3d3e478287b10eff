"""Kafka's checkpoints and other text files: read, and written again byte by byte."""

import json
from datetime import UTC, datetime

import pytest

from ottla.base.files import parent_directory, read_file
from ottla.storage.files.checkpoints import OffsetCheckpoint
from ottla.storage.files.clean_shutdown import read_clean_shutdown, write_clean_shutdown
from ottla.storage.files.meta_properties import read_meta_properties, write_meta_properties
from ottla.storage.files.partition_metadata import read_topic_id, write_topic_id
from ottla.storage.log.leader_epochs import LeaderEpochs
from ottla.testing import FakeFileSystem
from tests.golden.directories import CASES, FILES, golden_files


@pytest.mark.parametrize("case", CASES)
def test_leader_epochs_are_written_again_byte_by_byte(case: str) -> None:
    for golden in golden_files(case, "leader-epoch-checkpoint"):
        epochs = LeaderEpochs.read(FILES, str(golden.path))
        lines = golden.content.decode().splitlines()
        assert len(epochs.entries) == int(lines[1] if lines else 0)
        disk = FakeFileSystem()
        LeaderEpochs(disk, "epochs").assign_all(epochs.entries)
        if epochs.entries:
            assert read_file(disk, "epochs") == golden.content


@pytest.mark.parametrize("case", CASES)
def test_offset_checkpoints_are_written_again_byte_by_byte(case: str) -> None:
    for golden in golden_files(case, "*-offset-checkpoint"):
        offsets = OffsetCheckpoint(FILES, str(golden.path)).read()
        lines = golden.content.decode().splitlines()
        assert len(offsets) == int(lines[1] if lines else 0)
        disk = FakeFileSystem()
        OffsetCheckpoint(disk, "checkpoint").write(offsets)
        if lines:
            assert read_file(disk, "checkpoint") == golden.content


@pytest.mark.parametrize("case", CASES)
def test_high_watermarks_are_those_a_consumer_saw(case: str) -> None:
    for golden in golden_files(case, "replication-offset-checkpoint"):
        offsets = OffsetCheckpoint(FILES, str(golden.path)).read()
        manifest = golden.path.parents[1] / "manifest.json"
        if not (golden.path.parent / ".kafka_cleanshutdown").exists():
            continue
        for partition in json.loads(manifest.read_text()).get("partitions", []):
            key = (partition["topic"], partition["partition"])
            # Consumers committed once more after their look at the internal topics.
            if key in offsets and not key[0].startswith("__"):
                assert offsets[key] == partition["highWatermark"]


@pytest.mark.parametrize("case", CASES)
def test_partition_metadata_is_written_again_byte_by_byte(case: str) -> None:
    for golden in golden_files(case, "partition.metadata"):
        topic_id = read_topic_id(FILES, str(golden.path))
        assert topic_id is not None
        disk = FakeFileSystem()
        write_topic_id(disk, "partition.metadata", topic_id)
        assert read_file(disk, "partition.metadata") == golden.content


@pytest.mark.parametrize("case", CASES)
def test_meta_properties_are_written_again_byte_by_byte(case: str) -> None:
    for golden in golden_files(case, "meta.properties"):
        properties = read_meta_properties(FILES, str(golden.path))
        assert properties is not None
        assert properties.node_id == 1
        date = golden.content.decode().splitlines()[1]
        written_at = datetime.strptime(date, "#%a %b %d %H:%M:%S UTC %Y").replace(tzinfo=UTC)
        disk = FakeFileSystem()
        write_meta_properties(
            disk, "meta.properties", properties, now_ms=int(written_at.timestamp() * 1000)
        )
        assert read_file(disk, "meta.properties") == golden.content


@pytest.mark.parametrize("case", CASES)
def test_the_mark_of_a_clean_stop_is_written_again_byte_by_byte(case: str) -> None:
    for golden in golden_files(case, ".kafka_cleanshutdown"):
        mark = read_clean_shutdown(FILES, str(golden.path))
        assert mark is not None
        assert mark.broker_epoch is not None
        disk = FakeFileSystem()
        write_clean_shutdown(disk, "mark", mark.broker_epoch)
        assert read_file(disk, "mark") == golden.content
        assert parent_directory(str(golden.path)).endswith("logdir")
