"""The metadata log as whoever follows its leader gets it: an image of what is committed.

Sans-IO: the caller fetches from `end_offset` on, and gives what it got. The leader also sends what
is not committed yet. That waits here, and what another leader does not have is dropped. Kafka's
counterparts: an observer of `KafkaRaftClient`, and `MetadataLoader`.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import field
from typing import Final

from ottla.base.errors import CorruptionError
from ottla.base.files import Buffer
from ottla.base.values import dataclass
from ottla.codec.api_messages import UnknownRecordError
from ottla.codec.schema import Message
from ottla.metadata.control import decode_control_record
from ottla.metadata.image import MetadataImage
from ottla.metadata.log_files import LogReading, MetadataFile
from ottla.metadata.records import decode_record
from ottla.record.batch import Batch, InvalidBatchError, iter_batches, whole_size
from ottla.record.control import control_type
from ottla.record.record import read_records

UNKNOWN: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A committed record; `record` is `None` if its type or version is not known here."""

    offset: int
    epoch: int
    timestamp_ms: int
    record: Message | None
    unknown: str = ""
    """What is said of a record that is not known."""


@dataclass(slots=True)
class MetadataFollower:
    """`end_offset` is where the next fetch begins, and `end_epoch` the epoch of the record before
    it. `high_watermark` is -1 until a leader has told it.
    """

    end_offset: int = 0
    end_epoch: int = 0
    high_watermark: int = UNKNOWN
    _reading: LogReading = field(default_factory=LogReading)
    _waiting: deque[Batch] = field(default_factory=deque)
    """What was fetched and is not committed."""

    @property
    def committed_offset(self) -> int:
        """The offset after the last record of the image."""
        return self._reading.replay.end_offset

    def image(self) -> MetadataImage:
        return self._reading.replay.image()

    def take_records(self, source: str, records: Buffer, high_watermark: int) -> list[Entry]:
        """Takes what a fetch from `end_offset` got; returns what is committed now.

        A batch at the end may be cut. Raises `CorruptionError`, which names `source`.
        """
        place = f"{source}: __cluster_metadata from offset {self.end_offset}"
        size = whole_size(records)
        if records and not size:
            raise CorruptionError(place, 0, "no whole batch was sent")
        try:
            position = 0
            for batch in iter_batches(bytes(records[:size])):
                self._append(place, position, batch)
                position += batch.size
        except InvalidBatchError as error:
            raise CorruptionError(place, position, str(error)) from error
        self.learn_committed(high_watermark)
        return self._commit(source)

    def learn_committed(self, high_watermark: int) -> None:
        """What a leader says is never taken back; -1 if it does not know."""
        self.high_watermark = max(self.high_watermark, high_watermark)

    def take_snapshot(
        self, source: str, end_offset: int, epoch: int, content: bytes
    ) -> list[Entry]:
        """Begins anew with a snapshot; returns its records. Raises `CorruptionError`."""
        path = f"{source}: snapshot {end_offset}-{epoch} of __cluster_metadata"
        if end_offset < self.committed_offset:
            known = self.committed_offset
            raise CorruptionError(path, 0, f"it ends before offset {known}, which was committed")
        file = MetadataFile(path=path, content=content, offset=end_offset, epoch=epoch)
        reading = LogReading()
        deque(reading.steps(file, (), may_be_torn=False), maxlen=0)
        self._reading = reading
        self._waiting.clear()
        self.end_offset, self.end_epoch = end_offset, epoch
        self.learn_committed(end_offset)
        return [entry for batch in iter_batches(content) for entry in entries_of(batch)]

    def diverge(self, source: str, epoch: int, end_offset: int) -> None:
        """Drops what a new leader does not have: what is after `end_offset`, or of later epochs.

        Raises `CorruptionError` if that was committed, or nothing is after it.
        """
        before = self.end_offset, self.end_epoch
        while self._waiting and (
            self._waiting[-1].next_offset > end_offset
            or self._waiting[-1].partition_leader_epoch > epoch
        ):
            self._waiting.pop()
        replay = self._reading.replay
        self.end_offset, self.end_epoch = replay.end_offset, replay.epoch
        if self._waiting:
            last = self._waiting[-1]
            self.end_offset, self.end_epoch = last.next_offset, last.partition_leader_epoch
        is_same = (self.end_offset, self.end_epoch) == before
        if is_same or self.end_offset > end_offset or self.end_epoch > epoch:
            raise CorruptionError(
                f"{source}: __cluster_metadata",
                0,
                f"the leader's log ends at offset {end_offset} of epoch {epoch}, and records up to "
                f"offset {self.end_offset} of epoch {self.end_epoch} were committed",
            )

    def _append(self, place: str, position: int, batch: Batch) -> None:
        batch.check()
        if batch.base_offset != self.end_offset:
            reason = f"a batch begins at offset {batch.base_offset}, not {self.end_offset}"
            raise CorruptionError(place, position, reason)
        self._waiting.append(batch)
        self.end_offset, self.end_epoch = batch.next_offset, batch.partition_leader_epoch

    def _commit(self, source: str) -> list[Entry]:
        entries: list[Entry] = []
        while self._waiting and self._waiting[0].next_offset <= self.high_watermark:
            batch = self._waiting.popleft()
            file = MetadataFile(
                path=f"{source}: __cluster_metadata, batch of offset {batch.base_offset}",
                content=bytes(batch.bytes_view()),
                offset=batch.base_offset,
            )
            deque(self._reading.steps(None, [file], may_be_torn=False), maxlen=0)
            entries += entries_of(batch)
        return entries


def entries_of(batch: Batch) -> Iterator[Entry]:
    """The records of a batch that was replayed."""
    for one in read_records(batch):
        record, unknown = None, ""
        value = one.value or b""
        try:
            if not batch.is_control:
                record, _ = decode_record(value)
            elif (kind := control_type(one.key)) is not None:
                record = decode_control_record(kind, value)
        except UnknownRecordError as error:
            unknown = str(error)
        yield Entry(
            offset=one.offset,
            epoch=batch.partition_leader_epoch,
            timestamp_ms=one.timestamp_ms,
            record=record,
            unknown=unknown,
        )
