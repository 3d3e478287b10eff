"""The acknowledgement of a record. Not compiled, so that `help` shows docstrings."""

from typing import NamedTuple


class SentRecord(NamedTuple):
    """The place of a record; `offset` is -1 with acks=0, since it is unknown.

    >>> producer.send("orders", b"tea", partition=1).result().offset
    1
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
