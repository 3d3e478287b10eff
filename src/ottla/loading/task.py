"""What each task of a load must know of it, in whatever process it runs."""

from dataclasses import field
from enum import Enum

from ottla.base.values import dataclass
from ottla.schema_registry.registry import RegistryLogin
from ottla.sources.options import ReadOptions
from ottla.tables.layout import Partitioning
from ottla.tables.parquet_files import ParquetStyle
from ottla.tables.values.record_decoder import RecordDecoding


class OnError(Enum):
    """What happens to a record whose value cannot be decoded."""

    FAIL = "fail"
    """The load stops, and the table stays as it was."""
    QUARANTINE = "quarantine"
    """The record is kept beside the table, bytes and all."""
    SKIP = "skip"
    """Its place and the reason are kept, so that every offset is accounted for; the bytes not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTask:
    """`table` is a directory or an address, `directory` below it the place of the load's files."""

    read: ReadOptions
    topic: str
    table: str
    directory: str
    commit_id: int
    decoding: RecordDecoding = field(default_factory=RecordDecoding)
    login: RegistryLogin | None = field(default=None, repr=False)
    """For the registry of the schemas, if the decoding names one."""
    on_error: OnError = OnError.FAIL
    style: ParquetStyle = field(default_factory=ParquetStyle)
    partitioning: Partitioning | None = None
    is_latest: bool = False
    """Whether what is written are changes, to be merged with the rows of the table."""
    partition_count: int = 1
    """Of the topic."""
