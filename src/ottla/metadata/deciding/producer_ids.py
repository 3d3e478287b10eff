"""Decides which producer ids a broker may give (KIP-730).

Kafka's counterpart: `ProducerIdControlManager`.
"""

from typing import Final, NamedTuple

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.metadata.deciding.node_rules import check_epoch
from ottla.metadata.image import MetadataImage
from ottla.metadata.record_versions import VersionedRecord
from ottla.metadata.records import ProducerIdsRecord

BLOCK_SIZE: Final = 1000
LAST_ID: Final = 0x7FFFFFFFFFFFFFFF


class ProducerIds(NamedTuple):
    first: int
    length: int


def allocate_producer_ids(
    image: MetadataImage, broker_id: int, epoch: int
) -> tuple[list[VersionedRecord], ProducerIds]:
    """Returns the next block of producer ids and the record that takes it.

    Raises `ApiError`: STALE_BROKER_EPOCH, and UNKNOWN_SERVER_ERROR when there are no more.
    """
    check_epoch(image, broker_id, epoch)
    first = image.next_producer_id
    if first > LAST_ID - BLOCK_SIZE:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "All producer ids have been given.")
    record = ProducerIdsRecord(
        broker_id=broker_id, broker_epoch=epoch, next_producer_id=first + BLOCK_SIZE
    )
    return [(record, 0)], ProducerIds(first, BLOCK_SIZE)
