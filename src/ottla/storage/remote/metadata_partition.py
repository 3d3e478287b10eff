"""Which partition of `__remote_log_metadata` has the records of a partition.

Kafka's counterpart: `RemoteLogMetadataTopicPartitioner`, which hashes Java's `Objects.hash`.
"""

from struct import Struct

from ottla.base.ids import Uuid
from ottla.record.partitioner import partition_for_key

ID = Struct(">QQ")  # the most and the least significant bits of a topic's id
HASH = Struct(">I")
assert ID.size == 16
assert HASH.size == 4


def metadata_partition(topic_id: Uuid, partition: int, partition_count: int) -> int:
    """The partition of `__remote_log_metadata`, which has `partition_count` of them."""
    most, least = ID.unpack(topic_id)
    value = 1
    for number in (_hash(least), _hash(most), partition):
        value = 31 * value + number
    return partition_for_key(HASH.pack(value & 0xFFFFFFFF), partition_count)


def _hash(number: int) -> int:
    """Java's `Long.hashCode`."""
    return (number ^ number >> 32) & 0xFFFFFFFF
