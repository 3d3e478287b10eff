"""The image out of what lies in `__cluster_metadata-0`: snapshots, and the segments of the log.

Format page: docs/format/cluster-metadata.md. Only bytes come in here. What a crash tore off the
end of the last segment was never acknowledged and does not count; everything else that is not as
it must be raises `CorruptionError`, since settings that are half known would be wrong ones.
Kafka's counterparts: `RecordsSnapshotReader`, `KafkaMetadataLog`, `MetadataLoader`.
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
"""Kinds whose later versions are skipped: they say nothing of topics and settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataFile:
    """A file's path and content; of a snapshot and a segment the offset in its name."""

    path: str
    content: bytes
    offset: int = 0
    epoch: int = 0


def read_image(
    snapshot: MetadataFile | None, segments: Sequence[MetadataFile], *, may_be_torn: bool
) -> MetadataImage:
    """The image at the log's end: a snapshot, and what the segments say after it.

    `may_be_torn` after a crash, when the last batch may lack its end. Raises `CorruptionError`
    naming the file and the byte.
    """
    reading = _Reading(MetadataReplay())
    if snapshot is not None:
        reading.read_snapshot(snapshot)
    start = segments[0].offset if segments else reading.replay.end_offset
    if start > reading.replay.end_offset:
        raise CorruptionError(
            segments[0].path, 0, f"the log begins at offset {start}, and no snapshot leads up to it"
        )
    for number, segment in enumerate(segments):
        is_last = number == len(segments) - 1
        reading.read_segment(segment, may_be_torn=may_be_torn and is_last)
    return reading.replay.image()


@dataclass(slots=True)
class _Reading:
    replay: MetadataReplay
    log_offset: int | None = None
    """The offset that the next batch of the log must begin with."""

    def read_snapshot(self, file: MetadataFile) -> None:
        """Raises `CorruptionError` for one without its header or footer: it is not whole."""
        kinds: list[ControlRecordType | None] = []
        position = 0
        while position < len(file.content):
            batch = _batch(file, position)
            kinds += self._take(file, position, batch, from_offset=0)
            position += batch.size
        expected = ControlRecordType.SNAPSHOT_HEADER, ControlRecordType.SNAPSHOT_FOOTER
        if not kinds or (kinds[0], kinds[-1]) != expected:
            raise CorruptionError(file.path, position, "the snapshot is not whole")
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
        """Replays what of a batch is new; returns the kinds of its records, `None` for others."""
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
            reason = "a record changes what no record before it has made"
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
    """Whether nothing follows but a batch without its end, or zeros that were allocated."""
    if not any(content[position:]):
        return True
    if len(content) - position < LENGTH_END:
        return True
    length: int = OFFSET_AND_LENGTH.unpack_from(content, position)[1]
    return position + LENGTH_END + length > len(content)
