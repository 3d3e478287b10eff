"""Which partition a record goes to. A partitioner is a function of a key and a partition count.

A key decides alone. Without one a record joins the topic's sticky partition, which changes when its
batch is full or gone: fewer and larger batches than one by one. Kafka's counterpart:
`BuiltInPartitioner`.
"""

import random
from collections.abc import Callable
from zlib import crc32

from ottla.base.errors import UserError
from ottla.record.partitioner import murmur2

Partitioner = Callable[[bytes | None, int], int]

MAX_KNOWN = 10_000
"""Keys whose hash is remembered."""


class Partitioning:
    """The partitions of all topics that one producer sends to. One thread at a time."""

    def __init__(self, wanted: str | Partitioner) -> None:
        self._hash: Callable[[bytes], int] | None = murmur2 if wanted == "murmur2" else crc32
        self._own = wanted if callable(wanted) else None
        self._is_random = wanted == "random"
        self._hashes: dict[bytes, int] = {}
        self._sticky: dict[str, int] = {}

    def partition_of(self, topic: str, key: bytes | None, count: int) -> int:
        """Raises `UserError` for a partition of a partitioner's own that is not there."""
        if self._own is not None:
            chosen = self._own(key, count)
            if not 0 <= chosen < count:
                raise UserError(
                    f"the partitioner chose partition {chosen} of {topic}, which has {count}"
                )
            return chosen
        if key is not None and not self._is_random:
            return self._hash_of(key) % count
        sticky = self._sticky.get(topic)
        if sticky is None or sticky >= count:
            sticky = self._sticky[topic] = random.randrange(count)
        return sticky

    def batch_begun(self, topic: str, partition: int, count: int) -> None:
        """A partition's batch is full or gone, and another has begun: the next one gets records."""
        if count > 1 and self._sticky.get(topic) == partition:
            self._sticky[topic] = (partition + random.randrange(1, count)) % count

    def _hash_of(self, key: bytes) -> int:
        known = self._hashes.get(key)
        if known is None:
            assert self._hash is not None
            if len(self._hashes) >= MAX_KNOWN:
                self._hashes.clear()
            known = self._hashes[key] = self._hash(key) & (
                0x7FFFFFFF if self._hash is murmur2 else 0xFFFFFFFF
            )
        return known
