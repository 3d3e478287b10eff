"""Computes the partition of a key by murmur2, as Kafka's default partitioner does.

Kafka's counterparts: `Utils.murmur2`, `BuiltInPartitioner.partitionForKey`. numpy is imported when
`partitions_for_keys` is called, which hashes a whole Arrow column.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MULTIPLIER = 0x5BD1E995
SEED = 0x9747B28C
MASK = 0xFFFFFFFF

LONG_KEY = 512
"""Longer keys are hashed one by one: in lock step, the longest key decides the number of steps."""


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
    """The partition of a key, as in Java's and other Kafka clients."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


def partitions_for_keys(keys: Any, partition_count: int) -> "NDArray[np.int64]":
    """The partition of each key of a binary array, in lock step; a null is hashed as empty."""
    import numpy as np

    hashes = _hashes(keys)
    for row in np.flatnonzero(_sizes(keys) > LONG_KEY):
        hashes[row] = murmur2(keys[row].as_py())
    return (hashes & 0x7FFFFFFF).astype(np.int64) % partition_count


def _sizes(keys: Any) -> "NDArray[np.int64]":
    import numpy as np
    import pyarrow.compute as pc

    return np.asarray(pc.binary_length(keys).fill_null(0), np.int64)


def _hashes(keys: Any) -> "NDArray[np.uint32]":
    """The hash of each key; those of keys longer than `LONG_KEY` are wrong."""
    # 32-bit arithmetic of numpy wraps as that of Java.
    import numpy as np

    _, offsets, data = keys.buffers()
    start = np.frombuffer(offsets, np.int32)[keys.offset : keys.offset + len(keys)].astype(np.int64)
    # Padded, so that a word can be read at any byte of a key.
    padded = np.zeros((0 if data is None else len(data)) + 7, np.uint8)
    if data is not None:
        padded[: len(data)] = np.frombuffer(data, np.uint8)
    words: NDArray[np.uint32] = np.ndarray(
        (len(padded) - 3,), np.dtype("<u4"), padded, strides=(1,)
    )
    size = np.minimum(_sizes(keys), LONG_KEY)
    multiplier = np.uint32(MULTIPLIER)
    value = np.uint32(SEED) ^ size.astype(np.uint32)
    for position in range(0, int(size.max(initial=0)) & ~3, 4):
        rows = np.flatnonzero(size >= position + 4)
        word = words[start[rows] + position] * multiplier
        word = (word ^ (word >> np.uint32(24))) * multiplier
        value[rows] = (value[rows] * multiplier) ^ word
    left = size & 3
    rows = np.flatnonzero(left)
    kept = (np.uint32(1) << (8 * left[rows]).astype(np.uint32)) - np.uint32(1)
    tail = words[start[rows] + (size[rows] & ~3)] & kept
    value[rows] = (value[rows] ^ tail) * multiplier
    value = (value ^ (value >> np.uint32(13))) * multiplier
    return value ^ (value >> np.uint32(15))
