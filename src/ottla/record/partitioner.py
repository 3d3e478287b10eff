"""Which partition a key goes to: murmur2, as Kafka's default partitioner has it.

Kafka's counterparts: `Utils.murmur2`, `BuiltInPartitioner.partitionForKey`.
"""

MULTIPLIER = 0x5BD1E995
SEED = 0x9747B28C
MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The 32-bit hash, unsigned."""
    size = len(data)
    value = (SEED ^ size) & MASK
    whole = size & ~3
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little") * MULTIPLIER & MASK
        word = (word ^ (word >> 24)) * MULTIPLIER & MASK
        value = (value * MULTIPLIER & MASK) ^ word
    tail = data[whole:]
    if tail:
        value = (value ^ int.from_bytes(tail, "little")) * MULTIPLIER & MASK
    value = (value ^ (value >> 13)) * MULTIPLIER & MASK
    return value ^ (value >> 15)


def partition_for_key(key: bytes, partition_count: int) -> int:
    """The partition that every Kafka client puts this key into."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count
