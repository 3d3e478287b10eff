"""Which partition of an internal topic holds a group or a transactional id.

Kafka's counterparts: `GroupMetadataManager.partitionFor`, `Utils.abs`, Java's `String.hashCode`.
"""

from functools import lru_cache
from struct import iter_unpack
from typing import Final

INT32_MIN: Final = -(2**31)


def java_hash(text: str) -> int:
    """Java's `String.hashCode`: a hash of the UTF-16 code units, as a signed int32."""
    value = 0
    for (unit,) in iter_unpack(">H", text.encode("utf-16-be", "surrogatepass")):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


@lru_cache(maxsize=4096)
def partition_for(key: str, partition_count: int) -> int:
    """The partition that Kafka uses, so that Kafka and Ottla find each other's records."""
    value = java_hash(key)
    return 0 if value == INT32_MIN else abs(value) % partition_count
