"""Transactions in a log, without a coordinator."""

from ottla.record.control import EndTransactionMarker, build_end_transaction_marker
from ottla.storage.log.append import AppendInfo
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.producer_state import AppendOrigin
from tests.support.logs import NOW_MS, append


class Transactions:
    """Three producers' batches and markers, appended to a log."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.sequences = {1: 0, 2: 0, 3: 0}

    def write(self, producer_id: int) -> None:
        offset = self.log.log_end_offset
        append(
            self.log,
            b"%d" % offset,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=self.sequences[producer_id],
            is_transactional=True,
        )
        self.sequences[producer_id] += 1

    def end(self, producer_id: int, *, is_commit: bool) -> AppendInfo:
        marker = build_end_transaction_marker(
            EndTransactionMarker(is_commit=is_commit, coordinator_epoch=0),
            producer_id=producer_id,
            producer_epoch=0,
            timestamp_ms=NOW_MS,
        )
        info = self.log.writer.append_as_leader(
            bytearray(marker), leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR
        )
        self.log.writer.write_out()
        return info
