"""The log directories of replicas (KIP-858). Kafka's counterpart: `DirectoryId`."""

from typing import TYPE_CHECKING, Final

from ottla.base.ids import ZERO_UUID, Uuid
from ottla.metadata.brokers import BrokerRegistration

if TYPE_CHECKING:
    from ottla.metadata.image import PartitionImage

MIGRATING: Final = ZERO_UUID
"""Of a replica on a disk that nobody has named: its broker registered without directories."""

UNASSIGNED: Final = Uuid(bytes(15) + b"\1")
"""Of a replica whose broker has not said yet where it is."""

LOST: Final = Uuid(bytes(15) + b"\2")
"""Of a replica in a directory that has failed, and that nobody has named."""


def directory_of(partition: "PartitionImage", broker_id: int) -> Uuid:
    """Where a broker has a replica of a partition."""
    for broker, directory in zip(partition.replicas, partition.directories, strict=False):
        if broker == broker_id:
            return directory
    return MIGRATING


def is_online(broker: BrokerRegistration, directory: Uuid) -> bool:
    """Whether a broker can use a directory. What is not assigned is taken to be, as are all
    directories of a broker that has named none.
    """
    if directory == LOST:
        return False
    is_assigned = directory not in (UNASSIGNED, MIGRATING)
    return not is_assigned or not broker.directories or directory in broker.directories


def first_directory(broker: BrokerRegistration | None) -> Uuid:
    """Where a new replica of a broker is taken to be, until the broker says where."""
    if broker is None:
        return UNASSIGNED
    if not broker.directories:
        return MIGRATING
    return broker.directories[0] if len(broker.directories) == 1 else UNASSIGNED
