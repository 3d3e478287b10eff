"""The answer to a record. Not compiled: `help` shows docstrings."""

from typing import NamedTuple


class SentRecord(NamedTuple):
    """Where a record lies; `offset` is -1 with acks=0, whose answer nobody knows.

    >>> producer.send("orders", b"tea", partition=1).result().offset
    1
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
