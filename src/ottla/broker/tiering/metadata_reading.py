"""One partition of `__remote_log_metadata` as it is read: from its log on this broker, or, where
this broker has none, from its leader.

Kafka's counterpart: `ConsumerTask`.
"""

import logging
from collections.abc import Iterator
from itertools import islice
from typing import Final

from ottla.base.errors import ApiError, CorruptionError, StorageError
from ottla.base.partitions import TopicPartition
from ottla.broker.membership.metadata_requests import MetadataAnswer
from ottla.broker.topics.partition import Partition
from ottla.codec.api_messages import UnknownRecordError
from ottla.record.batch import Batch, InvalidBatchError, iter_batches
from ottla.record.record import Record, read_records
from ottla.storage.findings import Finding
from ottla.storage.log.offsets import Isolation
from ottla.storage.reading.sound_batches import sound_batches
from ottla.storage.remote.metadata_records import decode_event
from ottla.storage.remote.segment_index import SegmentIndexes

logger = logging.getLogger(__name__)

RECORDS_PER_SLICE: Final = 64
"""Each takes 30 µs to decode and to apply."""

READ_SIZE: Final = 1 << 16
BATCHES_PER_SLICE: Final = 16


class MetadataReading:
    """Applies the records of one partition in their order."""

    def __init__(self, name: str, next_offset: int) -> None:
        self.name = name
        self.indexes = SegmentIndexes()
        self.next_offset = next_offset
        self.is_ready = False
        """Whether all is read that was committed when the reading began."""
        self.failure: str | None = None
        """Why nothing can be read."""

    def take(self, record: Record) -> None:
        """Applies a record. One that cannot be applied is logged: Kafka leaves it out likewise."""
        self.next_offset = record.offset + 1
        try:
            refusal = self.indexes.apply(decode_event(record.value or b""))
        except CorruptionError as error:
            refusal = error.reason
        except UnknownRecordError as error:
            refusal = f"{error}; what it says of uploads is unknown"
        if refusal is not None:
            logger.error("%s: the record at offset %d: %s", self.name, record.offset, refusal)

    def take_batches(self, data: bytes) -> None:
        """Applies the whole batches of a region; raises `InvalidBatchError`."""
        for batch in islice(iter_batches(data, allow_torn_tail=True), BATCHES_PER_SLICE):
            batch.check()
            for record in () if batch.is_control else read_records(batch):
                if record.offset >= self.next_offset:
                    self.take(record)
            self.next_offset = max(self.next_offset, batch.last_offset + 1)


class LogReading(MetadataReading):
    """Reads a log on this broker, up to its high watermark."""

    def __init__(self, partition: Partition) -> None:
        log = partition.log
        super().__init__(log.name, log.log_start_offset)
        self._partition = partition
        self._log = log
        self._cut_count = log.offsets.cut_count
        self._records = self._stored_records()
        self._ready_offset = log.high_watermark
        if self._ready_offset <= self.next_offset:
            self._loaded()

    def is_of(self, partition: Partition) -> bool:
        """Whether it has read this log, and an unclean election has not cut off what was read."""
        log = partition.log
        is_cut = log.offsets.cut_count != self._cut_count and log.log_end_offset < self.next_offset
        return log is self._log and not is_cut

    @property
    def is_at_end(self) -> bool:
        return self.failure is not None or (
            self.is_ready and self.next_offset >= self._log.high_watermark
        )

    def advance(self) -> None:
        """Reads some records."""
        try:
            if not self.is_ready:
                self._load_some()
            else:
                self._read_some()
        except (StorageError, CorruptionError, ApiError, InvalidBatchError) as error:
            self.failure = str(error)
            logger.error("%s: what it says of uploads is unknown: %s", self.name, error)

    def _load_some(self) -> None:
        count = 0
        for record in islice(self._records, RECORDS_PER_SLICE):
            self.take(record)
            count += 1
        if count < RECORDS_PER_SLICE:
            self._loaded()

    def _loaded(self) -> None:
        self.is_ready = True
        self.next_offset = max(self.next_offset, self._ready_offset)
        self._records = iter(())

    def _stored_records(self) -> Iterator[Record]:
        """The records up to the high watermark; damage between them is logged."""
        log, place = self._log, TopicPartition(self._partition.topic, self._partition.index)
        cleaned_until = self._partition.directory.checkpoints.cleaned.get(place, 0)
        for one in sound_batches(log, log.losses(cleaned_until)):
            if isinstance(one, Finding):
                logger.error("%s; what it said of uploads is unknown", one.error())
                continue
            if one.last_offset >= self._ready_offset:
                return
            yield from _records_of(one, log.directory)

    def _read_some(self) -> None:
        """Reads what was appended since."""
        self.next_offset = max(self.next_offset, self._log.log_start_offset)
        data = self._log.reader.read(self.next_offset, READ_SIZE, Isolation.HIGH_WATERMARK)
        if data.records is not None:
            self.take_batches(data.records.read())


class LeaderReading(MetadataReading):
    """Reads a partition of which this broker has no log, by the answers of its leader."""

    def __init__(self, place: TopicPartition) -> None:
        super().__init__(str(place), 0)
        self._ready_offset: int | None = None
        self.is_asked = False
        """Whether a request is under way."""
        self.next_ask_ms = 0.0

    def is_cut_by(self, answer: MetadataAnswer) -> bool:
        """Whether an unclean election has cut off what was read."""
        return not answer.error and answer.high_watermark < self.next_offset

    def answered(self, answer: MetadataAnswer) -> bool:
        """Applies what the leader has sent; returns whether it may have more."""
        self.is_asked = False
        if answer.error:
            return False
        if self._ready_offset is None:
            self._ready_offset = answer.high_watermark
        self.next_offset = max(self.next_offset, answer.log_start_offset)
        try:
            self.take_batches(answer.records)
        except InvalidBatchError as error:
            logger.error("%s: what its leader has sent is damaged: %s", self.name, error)
            return False
        self.is_ready = self.is_ready or self.next_offset >= self._ready_offset
        return self.next_offset < answer.high_watermark


def _records_of(batch: Batch, directory: str) -> Iterator[Record]:
    if batch.is_control:
        return
    try:
        yield from read_records(batch)
    except InvalidBatchError as error:
        logger.error("%s: offset %d: %s", directory, batch.base_offset, error)
