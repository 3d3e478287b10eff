"""Decides which producer ids a broker may give (KIP-730).

Kafka's counterpart: `ProducerIdControlManager`.
"""

from typing import Final, NamedTuple

from ottla.metadata.image import MetadataImage
from ottla.metadata.image_changes import VersionedRecord

BLOCK_SIZE: Final = 1000


class ProducerIds(NamedTuple):
    first: int
    length: int


def allocate_producer_ids(
    image: MetadataImage, broker_id: int, epoch: int
) -> tuple[list[VersionedRecord], ProducerIds]:
    """Returns the next block of producer ids and the record that takes it.

    Raises `ApiError`: BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH, UNKNOWN_SERVER_ERROR when
    there are no more.
    """
    raise NotImplementedError
