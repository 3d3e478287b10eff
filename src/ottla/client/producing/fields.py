"""Checks the fields of a record before it joins a batch with the records of others.

A batch is encoded as a whole, later and in another thread: what an encoder refuses then would fail
every record in it.
"""

from typing import Any

from ottla.base.arguments import check_headers, check_partition, check_timestamp
from ottla.base.errors import UserError

HeaderPairs = tuple[tuple[str, bytes | None], ...]


def checked_headers(headers: Any) -> HeaderPairs:
    """Pairs that an application cannot change any more; raises `UserError`."""
    pairs = check_headers(headers)
    for name, value in pairs:
        if value is not None and not isinstance(value, bytes):
            raise UserError(
                f"the value of a header is bytes or None, not {type(value).__name__}: {name!a}"
            )
    return pairs


def checked_timestamp(time_ms: Any) -> int:
    """Milliseconds since 1970; raises `UserError`."""
    try:
        return check_timestamp(time_ms)
    except UserError as error:
        raise UserError(f"timestamp_ms: {error}") from error


def checked_partition(partition: Any) -> int:
    """A partition's number; raises `UserError`."""
    return check_partition(partition)
