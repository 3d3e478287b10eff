"""Reads the metadata image from the files of `__cluster_metadata-0`: a snapshot and log segments.

Format page: docs/format/cluster-metadata.md. The callers read the files. A torn batch at the end of
the last segment after a crash was never acknowledged, and is ignored. Any other damage raises
`CorruptionError`, since incomplete settings would be wrong. Kafka's counterparts:
`RecordsSnapshotReader`, `KafkaMetadataLog`, `MetadataLoader`.
"""

from collections.abc import Sequence

from ottla.base.errors import CorruptionError, ProtocolError
from ottla.base.values import dataclass
from ottla.metadata.control import decode_control_record
from ottla.metadata.image import MetadataImage, MetadataReplay
from ottla.metadata.records import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnknownRecordError,
    UnregisterBrokerRecord,
    decode_record,
)
from ottla.record.batch import Batch, InvalidBatchError, batch_at
from ottla.record.control import ControlRecordType, control_type
from ottla.record.layout import LENGTH_END, OFFSET_AND_LENGTH
from ottla.record.record import read_records

ABOUT_NODES = frozenset(
    one.API_KEY
    for one in (
        RegisterBrokerRecord,
        UnregisterBrokerRecord,
        FenceBrokerRecord,
        UnfenceBrokerRecord,
        BrokerRegistrationChangeRecord,
        RegisterControllerRecord,
    )
)
"""Records about nodes, whose unknown versions are skipped: they have no topics and settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataFile:
    """A file's path and content, and the offset (and for a snapshot the epoch) in its name."""

    path: str
    content: bytes
    offset: int = 0
    epoch: int = 0


def read_image(
    snapshot: MetadataFile | None, segments: Sequence[MetadataFile], *, may_be_torn: bool
) -> MetadataImage:
    """The image at the log's end, by a snapshot and the segments after it.

    `may_be_torn` says that the last segment may end with a torn batch, as after a crash. Raises
    `CorruptionError` with file and position.
    """
    reading = _Reading(MetadataReplay())
    if snapshot is not None:
        reading.read_snapshot(snapshot)
    start = segments[0].offset if segments else reading.replay.end_offset
    if start > reading.replay.end_offset:
        raise CorruptionError(
            segments[0].path, 0, f"the log begins at offset {start}, and no snapshot reaches it"
        )
    for number, segment in enumerate(segments):
        is_last = number == len(segments) - 1
        reading.read_segment(segment, may_be_torn=may_be_torn and is_last)
    return reading.replay.image()


@dataclass(slots=True)
class _Reading:
    replay: MetadataReplay
    log_offset: int | None = None
    """The base offset that the next batch of the log must have."""

    def read_snapshot(self, file: MetadataFile) -> None:
        """Replays a snapshot; raises `CorruptionError` if its header or footer is missing."""
        kinds: list[ControlRecordType | None] = []
        position = 0
        while position < len(file.content):
            batch = _batch(file, position)
            kinds += self._take(file, position, batch, from_offset=0)
            position += batch.size
        expected = ControlRecordType.SNAPSHOT_HEADER, ControlRecordType.SNAPSHOT_FOOTER
        if not kinds or (kinds[0], kinds[-1]) != expected:
            raise CorruptionError(file.path, position, "the snapshot is incomplete")
        self.replay.end_offset, self.replay.epoch = file.offset, file.epoch

    def read_segment(self, file: MetadataFile, *, may_be_torn: bool) -> None:
        snapshot_end = self.replay.end_offset
        position = 0
        while position < len(file.content):
            if may_be_torn and _is_torn(file.content, position):
                return
            batch = _batch(file, position)
            wanted = file.offset if self.log_offset is None else self.log_offset
            if batch.base_offset != wanted:
                reason = f"a batch begins at offset {batch.base_offset}, not {wanted}"
                raise CorruptionError(file.path, position, reason)
            self._take(file, position, batch, from_offset=snapshot_end)
            self.log_offset = batch.next_offset
            if batch.next_offset > self.replay.end_offset:
                self.replay.end_offset = batch.next_offset
                self.replay.epoch = batch.partition_leader_epoch
            position += batch.size

    def _take(
        self, file: MetadataFile, position: int, batch: Batch, *, from_offset: int
    ) -> list[ControlRecordType | None]:
        """Replays the records from `from_offset`; returns the control type of each record."""
        kinds: list[ControlRecordType | None] = []
        try:
            for record in read_records(batch):
                value = record.value or b""
                kind = control_type(record.key) if batch.is_control else None
                kinds.append(kind)
                if kind is not None:
                    decode_control_record(kind, value)
                elif not batch.is_control and record.offset >= from_offset:
                    self._replay(value)
        except (InvalidBatchError, ProtocolError) as error:
            raise CorruptionError(file.path, position, str(error)) from error
        except KeyError as error:
            reason = "a record changes a topic or partition that no earlier record has created"
            raise CorruptionError(file.path, position, reason) from error
        return kinds

    def _replay(self, value: bytes) -> None:
        try:
            record, _ = decode_record(value)
        except UnknownRecordError as error:
            if error.api_key not in ABOUT_NODES:
                raise
            return
        self.replay.replay(record)


def _batch(file: MetadataFile, position: int) -> Batch:
    try:
        batch = batch_at(file.content, position)
        batch.check()
    except InvalidBatchError as error:
        raise CorruptionError(file.path, position, str(error)) from error
    return batch


def _is_torn(content: bytes, position: int) -> bool:
    """Whether only an incomplete batch, or preallocated zeros, follow."""
    if not any(content[position:]):
        return True
    if len(content) - position < LENGTH_END:
        return True
    length: int = OFFSET_AND_LENGTH.unpack_from(content, position)[1]
    return position + LENGTH_END + length > len(content)
