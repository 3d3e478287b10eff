"""What a quorum without work writes, so that its followers see that it lives.

Kafka's counterpart: `PeriodicTaskControlManager`, task `writeNoOpRecord` (KIP-835).
"""

from ottla.metadata.image import MetadataImage
from ottla.metadata.record_versions import VersionedRecord
from ottla.metadata.records import NoOpRecord

FIRST_WITH_NO_OP = 5


def idle_records(image: MetadataImage) -> list[VersionedRecord]:
    """A NoOpRecord, from level 3.3-IV1 on."""
    return [(NoOpRecord(), 0)] if image.level >= FIRST_WITH_NO_OP else []
