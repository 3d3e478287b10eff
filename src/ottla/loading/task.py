"""The values that every task of a load needs, in whatever process it runs."""

from dataclasses import field
from enum import Enum

from ottla.base.values import dataclass
from ottla.schema_registry.registry import RegistryLogin
from ottla.sources.options import ReadOptions
from ottla.tables.layout import Partitioning
from ottla.tables.parquet_files import ParquetStyle
from ottla.tables.values.record_decoder import RecordDecoding


class OnError(Enum):
    """The handling of a record whose value cannot be decoded."""

    FAIL = "fail"
    """The load stops, and the table is unchanged."""
    QUARANTINE = "quarantine"
    """The record is kept beside the table, including its bytes."""
    SKIP = "skip"
    """Only offset and reason are kept, so that every offset is accounted for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTask:
    """`table` is a directory or an address; `directory` below it is for the load's files."""

    read: ReadOptions
    topic: str
    table: str
    directory: str
    commit_id: int
    decoding: RecordDecoding = field(default_factory=RecordDecoding)
    login: RegistryLogin | None = field(default=None, repr=False)
    """The login for the schema registry, if the decoding uses one."""
    on_error: OnError = OnError.FAIL
    style: ParquetStyle = field(default_factory=ParquetStyle)
    partitioning: Partitioning | None = None
    is_latest: bool = False
    """Whether the task writes changes, which are then merged with the table's rows."""
    partition_count: int = 1
    """The number of partitions of the topic."""
