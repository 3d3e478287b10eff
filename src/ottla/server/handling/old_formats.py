"""Responses for consumers from before record batches: Fetch 0 and 1 know magic 0, 2 and 3 magic 1.

Kafka 3.9 has this (`KafkaApis.maybeDownConvert`), Kafka 4 no longer. It costs a pass over the
records in the serving thread, bounded by the size of one fetch.
"""

import dataclasses

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.broker.broker import Broker
from ottla.broker.waiting.fetch_queries import FetchQuery, PartitionQuery
from ottla.record.batch import Batch, InvalidBatchError, iter_batches
from ottla.record.down_conversion import down_convert
from ottla.storage.log.reader import FetchData

MAGIC_BY_VERSION = {0: 0, 1: 0, 2: 1, 3: 1}
"""The newest record format that each of these versions of Fetch may carry."""


def convert(data: FetchData, magic: int, wanted: PartitionQuery, broker: Broker) -> bytes:
    """The records of one partition as a message set; raises `ApiError`.

    Batches that convert to no records (transaction markers) are skipped, since an old consumer
    continues only by the offsets of the records that it gets. A part of a batch is sent unchanged:
    it shows a consumer that its limit is too small. A topic may disable all conversion
    (`message.downconversion.enable`).
    """
    _check_allowed(magic, wanted, broker)
    wanted = dataclasses.replace(wanted)
    query = FetchQuery([wanted], wanted.max_size)
    while data.records is not None:
        try:
            region = data.records.read()
        except OSError as error:
            # Deleted while others had their turn: the client must retry.
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER) from error
        try:
            batches: list[Batch] = list(iter_batches(region, allow_torn_tail=True))
            for batch in batches:
                # Converted records get a new checksum, which would hide damage.
                batch.check()
            converted = down_convert(batches, magic, wanted.offset)
        except InvalidBatchError as error:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE) from error
        if not batches:
            return region
        if converted:
            return converted
        wanted.offset = batches[-1].last_offset + 1
        (result,) = broker.fetches.fetch(query).partitions
        if isinstance(result, ApiError):
            raise result
        data = result
    return b""


def _check_allowed(magic: int, wanted: PartitionQuery, broker: Broker) -> None:
    """As in Kafka, depends on the topic's format, not on that of the records."""
    topic = broker.topics.find(wanted.topic or "")
    if topic is None or topic.config.message_downconversion_enable or topic.config.magic <= magic:
        return
    raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
