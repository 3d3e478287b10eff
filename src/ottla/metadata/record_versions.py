"""The version in which a record is written at a level of `metadata.version`.

Kafka's counterpart: `MetadataVersion.partitionRecordVersion` and the like.
"""

from collections.abc import Mapping
from typing import Final

from ottla.codec.schema import Message
from ottla.metadata.image import FIRST_WITH_CORDONED, FIRST_WITH_DIRECTORIES, FIRST_WITH_ELR
from ottla.metadata.records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
)

VersionedRecord = tuple[Message, int]
"""A record, and the version in which it is written."""

FIRST_WITH_MIGRATION: Final = 8

_OF_PARTITIONS: Final = ((FIRST_WITH_ELR, 2), (FIRST_WITH_DIRECTORIES, 1))

_VERSIONS: Final[Mapping[type[Message], tuple[tuple[int, int], ...]]] = {
    RegisterBrokerRecord: (
        (FIRST_WITH_CORDONED, 4),
        (FIRST_WITH_DIRECTORIES, 3),
        (FIRST_WITH_MIGRATION, 2),
        (0, 1),
    ),
    BrokerRegistrationChangeRecord: (
        (FIRST_WITH_CORDONED, 3),
        (FIRST_WITH_DIRECTORIES, 2),
        (0, 1),
    ),
    PartitionRecord: _OF_PARTITIONS,
    PartitionChangeRecord: _OF_PARTITIONS,
}
"""For each record that has more than one version in use: the first level of each, the last first.
Levels below 7 (3.3-IV3) are not in use.
"""


def record_version(kind: type[Message], level: int) -> int:
    """The version of a kind of record at a level of `metadata.version`."""
    known = _VERSIONS.get(kind, ())
    return next((version for first, version in known if level >= first), 0)


def versioned(record: Message, level: int) -> VersionedRecord:
    return record, record_version(type(record), level)
