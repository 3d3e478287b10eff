"""The decision about a batch before its records are read.

Kafka's counterpart: the `RecordFilter` of `Cleaner.cleanInto`.
"""

from collections.abc import Mapping

from ottla.base.values import dataclass
from ottla.record.batch import Batch, RecordBatch
from ottla.storage.compaction.transactions import CleanedTransactions


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRecord:
    """The last write of an active producer; `data_offset` is `None` if that was only a marker."""

    data_offset: int | None
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The decision about one batch.

    `drops_records`: all records are removed. `keeps_empty`: if no record is left, the header is
    kept. `starts_horizon`: a marker without data, which is removed after a delete horizon.
    """

    drops_records: bool
    keeps_empty: bool
    starts_horizon: bool


class BatchJudge:
    """Judges the batches of one pass in the order of the log."""

    def __init__(
        self,
        transactions: CleanedTransactions,
        last_records: Mapping[int, LastRecord],
        *,
        end_offset: int,
        now_ms: int,
    ) -> None:
        self._transactions = transactions
        self._last_records = last_records
        self._end_offset = end_offset
        self._now_ms = now_ms

    def judge(self, batch: Batch) -> Verdict:
        if batch.is_control:
            is_obsolete = self._transactions.is_marker_obsolete(batch)
            drops_records = is_obsolete and self.is_past_horizon(batch)
        else:
            is_obsolete = drops_records = self._transactions.is_aborted(batch)
        return Verdict(
            drops_records=drops_records,
            keeps_empty=isinstance(batch, RecordBatch) and self._is_needed(batch),
            starts_horizon=is_obsolete and batch.is_control,
        )

    def is_past_horizon(self, batch: Batch) -> bool:
        """Whether the batch's delete horizon has passed: tombstones and markers may be removed."""
        return (
            isinstance(batch, RecordBatch)
            and batch.has_delete_horizon
            and batch.base_timestamp_ms <= self._now_ms
        )

    def _is_needed(self, batch: RecordBatch) -> bool:
        """Whether a batch must be kept even if empty.

        It has a producer's last sequence number or epoch, or ends the compacted part.
        """
        return self._is_last_of_producer(batch) or batch.next_offset == self._end_offset

    def _is_last_of_producer(self, batch: RecordBatch) -> bool:
        last = self._last_records.get(batch.producer_id) if batch.producer_id >= 0 else None
        if last is None:
            return False
        if last.data_offset is not None:
            return batch.last_offset == last.data_offset
        return batch.is_control and batch.producer_epoch == last.epoch
