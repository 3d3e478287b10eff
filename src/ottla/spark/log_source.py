"""Where records come from: the one seam behind which segment files and a broker's wire are alike.

A `LogSource` is made twice: where a read is planned, and again in each task. So everything that a
task needs to know stands in its `Split`.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ottla.base.errors import UserError
from ottla.spark.manifest import BatchRollUp, OffsetRange
from ottla.spark.options import BOOTSTRAP_OPTION, ReadOptions
from ottla.spark.plan import LogPartition
from ottla.storage.transaction_index import AbortedTransaction

if TYPE_CHECKING:
    import pyarrow as pa

_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:]+\]|[\w.-]+):\d{1,5}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """What one task reads. `aborted` are the transactions whose records it must leave out."""

    partition: int
    from_offset: int
    until_offset: int
    aborted: tuple[AbortedTransaction, ...] = ()


class LogSource(Protocol):
    """One topic, read committed. Raises `UserError` when it cannot be had."""

    def partitions(self) -> list[LogPartition]:
        """Ids and offsets as they are now."""

    def splits(self, ranges: Mapping[int, OffsetRange], min_count: int | None) -> list[Split]:
        """Tasks for these ranges by partition; at least `min_count`, when it is given."""

    def read(self, split: Split, columns: Sequence[str]) -> "Iterator[pa.RecordBatch]":
        """The committed records, in columns named as `ottla.record.columns` names them."""

    def count_records(self, partition: int, wanted: OffsetRange) -> int | None:
        """How many committed records a range has; `None` when only reading it would tell."""

    def roll_up(self, partition: int, wanted: OffsetRange) -> BatchRollUp | None:
        """What the batches of a range come to; `None` where no batches can be seen."""


def open_log(options: ReadOptions) -> LogSource:
    """The source that the options name."""
    if options.path is not None:
        from ottla.spark.log_files import LogFiles

        return LogFiles(options.path, options.topic)
    from ottla.spark.wire import BrokerLog

    return BrokerLog(options.client, options.topic)


def source_options(source: str) -> dict[str, str]:
    """The data source's option for a data directory or a broker's address, as a person writes it.

    A directory that is there is one, whatever it is called. Raises `UserError` for anything else.
    """
    if os.path.isdir(source):
        return {"path": os.path.abspath(source)}
    if all(_ADDRESS.fullmatch(address) for address in source.split(",")):
        return {BOOTSTRAP_OPTION: source}
    raise UserError(f"{source} is neither a directory that exists nor HOST:PORT of a broker")
