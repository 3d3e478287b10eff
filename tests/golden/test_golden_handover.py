"""What Kafka's metadata log says is what is handed back, and in Kafka's bytes."""

import dataclasses
import shutil
from pathlib import Path

import pytest

from ottla.base.files import OsFileSystem
from ottla.broker.adoption.handover import HandoverOptions, plan_handover, write_handover
from ottla.broker.broker import Broker
from ottla.broker.configs.config_changes import Alteration, ConfigChange
from ottla.metadata.control import SnapshotFooterRecord, SnapshotHeaderRecord
from ottla.metadata.deciding.topics import NewTopic
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_changes import image_changes
from ottla.metadata.log_files import MetadataFile, read_log
from ottla.metadata.log_writing import control_batch, leader_change, record_batch, snapshot_parts
from ottla.metadata.records import FeatureLevelRecord
from ottla.record.batch import iter_batches
from ottla.runtime.opening import new_id
from ottla.storage.files.metadata_files import read_metadata_log
from tests.golden.test_golden_metadata import RECORDED
from tests.support.serving import open_broker

pytestmark = pytest.mark.skipif(not RECORDED.exists(), reason="needs the shared directory")

FILES = OsFileSystem()
METADATA = "__cluster_metadata-0"
OPTIONS = HandoverOptions(now_ms=1_795_400_000_000, new_id=new_id)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A copy of what Kafka left, which may be written to."""
    copy = tmp_path / "logdir"
    shutil.copytree(RECORDED / "logdir", copy)
    for path in [copy, *copy.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    return copy


def image_of(directory: Path) -> MetadataImage:
    return read_metadata_log(FILES, str(directory)).image()


def hand_over(directory: Path) -> list[str]:
    plan = plan_handover([str(directory)], FILES, OPTIONS)
    return write_handover(plan, FILES, OPTIONS)


def opened(directory: Path) -> Broker:
    return open_broker(directory, log_segment_delete_delay_ms="1000000")


@pytest.mark.slow
def test_a_directory_that_nothing_was_changed_in_is_as_kafka_left_it(directory: Path) -> None:
    before = image_of(directory)
    assert hand_over(directory) == []
    opened(directory).close()
    assert hand_over(directory) == []
    assert image_of(directory) == before


def test_an_image_written_from_nothing_reads_as_the_same_image() -> None:
    image = image_of(RECORDED / "logdir")
    records = list(image_changes(MetadataImage(), image))
    content = record_batch(records, 0, image.epoch, OPTIONS.now_ms)
    log = MetadataFile(path="log", content=content)
    again = read_log(None, [log], may_be_torn=False).image()
    of_the_log = {one: getattr(image, one) for one in ("end_offset", "voters", "removed")}
    assert dataclasses.replace(again, **of_the_log) == image
    assert not list(image_changes(image, image))


@pytest.mark.slow
def test_changes_follow_in_the_log_and_all_else_stays(directory: Path) -> None:
    before = image_of(directory)
    broker = opened(directory)
    broker.admin.create_topic(NewTopic(name="made-here"))
    broker.admin.delete_topic(broker.topics.get("zipped"))
    change = ConfigChange(name="retention.ms", value="5")
    broker.admin.alter_topic("keep-forever", Alteration(changes=[change]))
    broker.close()
    assert hand_over(directory) == []
    after = image_of(directory)
    assert set(after.topics) == {*before.topics, "made-here"} - {"zipped"}
    assert after.topics["keep-forever"].configs == {
        **before.topics["keep-forever"].configs,
        "retention.ms": "5",
    }
    for name in set(before.topics) - {"zipped", "keep-forever"}:
        assert after.topics[name] == before.topics[name]
    for same in ("quotas", "credentials", "acls", "features", "configs", "brokers"):
        assert getattr(after, same) == getattr(before, same)
    assert after.next_producer_id >= before.next_producer_id


def test_the_first_batch_of_an_epoch_is_kafkas_byte_for_byte() -> None:
    content = (RECORDED / "logdir" / METADATA / f"{0:020d}.log").read_bytes()
    found = 0
    for batch in iter_batches(content):
        if batch.is_control:
            made = control_batch(
                [leader_change(1, None)],
                batch.base_offset,
                batch.partition_leader_epoch,
                batch.max_timestamp_ms,
            )
            assert made == content[batch.position : batch.position + batch.size]
            found += 1
    assert found == 2


def test_the_bootstrap_checkpoint_is_kafkas_byte_for_byte() -> None:
    content = (RECORDED / "logdir" / "bootstrap.checkpoint").read_bytes()
    header, records, footer = iter_batches(content)
    level = FeatureLevelRecord(name="metadata.version", feature_level=14)
    made = [
        control_batch(
            [SnapshotHeaderRecord(last_contained_log_timestamp=0)], 0, 0, header.max_timestamp_ms
        ),
        record_batch([(level, 0)], 1, 0, records.max_timestamp_ms),
        control_batch([SnapshotFooterRecord()], 2, 0, footer.max_timestamp_ms),
    ]
    assert b"".join(made) == content
    parts = snapshot_parts([(level, 0)], epoch=0, now_ms=0)
    assert [len(one) for one in parts] == [len(one) for one in made]
