"""What Kafka's controllers decided about partitions, decided again."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.codec.api_messages import encode_record
from ottla.codec.schema import Message
from ottla.metadata.deciding.partition_changes import arriving, leaving
from ottla.metadata.following import entries_of
from ottla.metadata.image import MetadataImage
from ottla.metadata.record_versions import VersionedRecord
from ottla.metadata.records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from ottla.metadata.replay import MetadataReplay
from ottla.record.batch import iter_batches
from tests.golden.test_golden_kraft_logs import LOGS, RECORDED, segment_of

pytestmark = pytest.mark.skipif(not LOGS, reason="needs the shared directories")

LOG = RECORDED / "logdirs" / "controller-102" / "__cluster_metadata-0"


def batches(folder: Path) -> Iterator[tuple[MetadataImage, list[Message]]]:
    """The records of each batch, with the image before them."""
    replay = MetadataReplay()
    for batch in iter_batches(segment_of(folder).content):
        if batch.is_control:
            continue
        records = [one.record for one in entries_of(batch) if one.record is not None]
        yield replay.image(), records
        for record in records:
            replay.replay(record)


def encoded(records: list[VersionedRecord]) -> list[bytes]:
    return sorted(encode_record(record, version) for record, version in records)


def changes_among(records: list[Message]) -> list[VersionedRecord]:
    return [(one, 1) for one in records if isinstance(one, PartitionChangeRecord)]


def test_brokers_that_go_and_come_change_the_partitions_that_kafka_changed() -> None:
    gone, moved, come = 0, 0, 0
    for image, records in batches(LOG):
        changed = changes_among(records)
        for record in records:
            if isinstance(record, BrokerRegistrationChangeRecord):
                if record.fenced < 0:
                    come += 1
                    assert encoded(arriving(image, record.broker_id)) == encoded(changed)
                elif record.fenced or record.in_controlled_shutdown:
                    gone += 1
                    moved += len(changed)
                    assert encoded(leaving(image, record.broker_id)) == encoded(changed)
            elif isinstance(record, RegisterBrokerRecord):
                assert encoded(leaving(image, record.broker_id)) == encoded(changed)
    assert (gone, moved, come) == (12, 211, 7)
