"""What each of Spark's processes must know of a load."""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.loading.quarantine import OnError
from ottla.tables.layout import Partitioning
from ottla.tables.values.decoder import Decoding


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTask:
    """`table` is a directory or an address, `directory` below it the place of the load's files."""

    read_options: Mapping[str, str]
    topic: str
    table: str
    directory: str
    commit_id: int
    decoding: Decoding | None = None
    on_error: OnError = OnError.FAIL
    compression: str = "zstd"
    partitioning: Partitioning | None = None
