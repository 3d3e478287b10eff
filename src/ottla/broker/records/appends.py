"""Appends of clients and coordinators to the logs that this broker leads.

The appends of one round are pending until `write_out`, which makes them readable and wakes the
fetches that wait for them. Kafka's counterpart: `ReplicaManager.appendRecords`.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, StorageError
from ottla.base.files import Buffer
from ottla.base.open_files import OpenFiles
from ottla.broker.topics.partition import Partition
from ottla.broker.waiting.background import Background, Preparation
from ottla.broker.waiting.fetch_queries import FetchQuery
from ottla.broker.waiting.rooms import Waiting, WaitingRoom
from ottla.record.batch import RecordBatch
from ottla.storage.log.append import AppendInfo, LongPreparationError, PreparedRecords
from ottla.storage.log.producer_state import AppendOrigin

ACKS_ALL: Final = -1


class Decisions(Protocol):
    """Decisions about transactions, which are carried out once they are written."""

    @property
    def has_decided(self) -> bool: ...

    def end_decided(self, write_out: Callable[[], None]) -> None: ...


class Appends:
    """`waiting` has the fetches that wait for records."""

    def __init__(self, open_files: OpenFiles, waiting: WaitingRoom[FetchQuery, Any]) -> None:
        self._open_files = open_files
        self._waiting = waiting
        self._dirty: list[Partition] = []
        self._background: Background | None = None
        self._decisions: Decisions | None = None

    def prepare_in(self, background: Background | None) -> None:
        """Sets the thread that prepares large batches; without one they are prepared here."""
        self._background = background

    def carry_out_after_writing(self, decisions: Decisions) -> None:
        """Has `write_out` carry out decisions about transactions."""
        self._decisions = decisions

    def append(
        self,
        partition: Partition,
        records: Buffer | RecordBatch | PreparedRecords,
        *,
        now_ms: int,
        acks: int = ACKS_ALL,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> AppendInfo:
        """Appends batches.

        `records` may be modified, and the caller must leave them unchanged until `write_out`.
        Raises `ApiError`; raises `LongPreparationError` if a thread should prepare them first
        (`prepare`).
        """
        if self._open_files.is_over:
            self._open_files.give_back()
        log = partition.log
        if partition.replication is not None:
            partition.replication.check_append(acks)
        elif acks == ACKS_ALL and log.config.min_insync_replicas > 1:
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
        try:
            info = log.writer.append_as_leader(
                records,
                leader_epoch=partition.leader_epoch,
                now_ms=now_ms,
                origin=origin,
                may_defer=self._background is not None,
            )
        except StorageError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR) from error
        if info.size:
            partition.messages_in += info.last_offset - info.first_offset + 1
            partition.bytes_in += info.size
        if not partition.is_dirty:
            partition.is_dirty = True
            self._dirty.append(partition)
        return info

    def prepare(self, work: Sequence[LongPreparationError]) -> Preparation:
        """Has another thread prepare records, in the given order; `take_answered` returns the
        result.
        """
        assert self._background is not None
        preparation = Preparation(work)
        self._background.submit(preparation)
        return preparation

    @property
    def has_answers(self) -> bool:
        return self._background is not None and self._background.has_done

    def take_answered(self) -> Sequence[Waiting[Any]]:
        """Returns what is prepared."""
        return () if self._background is None else self._background.take_done()

    @property
    def has_pending(self) -> bool:
        """Whether `write_out` has something to do."""
        return bool(self._dirty) or (self._decisions is not None and self._decisions.has_decided)

    def write_out(self) -> None:
        """Writes all pending appends, with one call per partition, which makes them readable. Then
        it carries out decisions about transactions. Raises `StorageError` after it has tried all
        partitions.
        """
        if self._dirty:
            self._write_dirty()
        if self._decisions is not None and self._decisions.has_decided:
            self._decisions.end_decided(self._write_dirty)

    def _write_dirty(self) -> None:
        dirty, self._dirty = self._dirty, []
        failure: StorageError | None = None
        for partition in dirty:
            partition.is_dirty = False
            try:
                partition.log.writer.write_out()
                if partition.replication is not None:
                    partition.replication.written_out()
            except StorageError as error:
                failure = error
            self._waiting.wake(partition)
        if failure is not None:
            raise failure
