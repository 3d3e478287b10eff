"""Decides when a quorum without work writes a record, so that its followers see that it lives.

Kafka's counterpart: `PeriodicTaskControlManager`, task `writeNoOpRecord` (KIP-835).
"""

from ottla.metadata.image import MetadataImage
from ottla.metadata.image_changes import VersionedRecord


def idle_records(image: MetadataImage) -> list[VersionedRecord]:
    """A NoOpRecord, from level 3.3-IV1 on."""
    raise NotImplementedError
