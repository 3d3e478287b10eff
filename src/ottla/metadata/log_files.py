"""Reads the metadata image from the files of `__cluster_metadata-0`: a snapshot and log segments.

Format page: docs/format/cluster-metadata.md. The callers read the files. A torn batch at the end of
the last segment after a crash was never acknowledged, and is ignored. Any other damage is named;
what is before it is read. Kafka's counterparts: `RecordsSnapshotReader`, `KafkaMetadataLog`,
`MetadataLoader`.
"""

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import field

from ottla.base.errors import CorruptionError, ProtocolError
from ottla.base.values import dataclass
from ottla.codec.api_messages import UnknownRecordError
from ottla.codec.schema import Message
from ottla.metadata.control import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    VotersRecord,
    decode_control_record,
)
from ottla.metadata.image import MetadataImage
from ottla.metadata.records import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    NoOpRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
    decode_record,
)
from ottla.metadata.replay import MetadataReplay
from ottla.record.batch import Batch, InvalidBatchError, batch_at
from ottla.record.control import ControlRecordType, control_type
from ottla.record.layout import LENGTH_END, MAGIC_POSITION
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
        UnregisterControllerRecord,
    )
)
"""Records about nodes, whose unknown versions are skipped: they have no topics and settings."""

RECORDS_PER_STEP = 100

ZEROS_AT_END = 24
"""More than a batch ends with, unless its last record does: ids of no directory are 16 each."""
ZEROS_INSIDE = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataFile:
    """A file's path and content, and the offset (and for a snapshot the epoch) in its name."""

    path: str
    content: bytes
    offset: int = 0
    epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLog:
    """`content` is what the log holds, or what is before the damage if there is any."""

    content: MetadataImage
    is_in_transaction: bool = False
    """Whether a metadata transaction was begun and not ended."""
    has_removed_credential: bool = False
    """Whether a SCRAM credential was removed since all were written again (`credentials_again`)."""
    damage: CorruptionError | None = None

    def image(self) -> MetadataImage:
        """The image of a log without damage; raises `CorruptionError` with file and position."""
        if self.damage is not None:
            raise self.damage
        return self.content


def read_log(
    snapshot: MetadataFile | None, segments: Sequence[MetadataFile], *, may_be_torn: bool
) -> ReadLog:
    """The state by a snapshot and the segments after it.

    `may_be_torn` says that the last segment may end with a torn batch, as after a crash.
    """
    reading = LogReading()
    damage = None
    try:
        deque(reading.steps(snapshot, segments, may_be_torn=may_be_torn), maxlen=0)
    except CorruptionError as error:
        damage = error
    replay = reading.replay
    return ReadLog(
        content=replay.image(),
        is_in_transaction=replay.is_in_transaction,
        has_removed_credential=replay.has_removed_credential,
        damage=damage,
    )


@dataclass(slots=True)
class LogReading:
    """Reads a log in steps of few records, which raise `CorruptionError`: a batch may have 10,000.

    What was replayed is whole after the last step, and not within a batch before.
    """

    replay: MetadataReplay = field(default_factory=MetadataReplay)
    log_offset: int | None = None
    """The base offset that the next batch of the log must have."""
    _version: Message | None = None
    _voters: Message | None = None

    def steps(
        self,
        snapshot: MetadataFile | None,
        segments: Sequence[MetadataFile],
        *,
        may_be_torn: bool,
    ) -> Iterator[None]:
        if snapshot is not None:
            yield from self._read_snapshot(snapshot)
        end = self.replay.end_offset
        if segments and segments[0].offset > end:
            reason = f"the log begins at offset {segments[0].offset}, and no snapshot reaches it"
            raise CorruptionError(segments[0].path, 0, reason)
        for number, segment in enumerate(segments):
            is_last = number == len(segments) - 1
            yield from self._read_segment(segment, may_be_torn=may_be_torn and is_last)

    def _read_snapshot(self, file: MetadataFile) -> Iterator[None]:
        """Replays a snapshot; raises `CorruptionError` if its header or footer is missing."""
        kinds: list[ControlRecordType | None] = []
        position = next_offset = 0
        while position < len(file.content):
            batch = _batch(file, position)
            if batch.base_offset != next_offset:
                reason = f"a batch begins at offset {batch.base_offset}, not {next_offset}"
                raise CorruptionError(file.path, position, reason)
            next_offset = batch.next_offset
            kinds += yield from self._take(file, position, batch, from_offset=0)
            position += batch.size
            yield
        expected = ControlRecordType.SNAPSHOT_HEADER, ControlRecordType.SNAPSHOT_FOOTER
        if not kinds or (kinds[0], kinds[-1]) != expected:
            raise CorruptionError(file.path, position, "the snapshot is incomplete")
        self.replay.end_offset, self.replay.epoch = file.offset, file.epoch

    def _read_segment(self, file: MetadataFile, *, may_be_torn: bool) -> Iterator[None]:
        snapshot_end = self.replay.end_offset
        position = 0
        while position < len(file.content):
            try:
                batch = _batch(file, position)
            except CorruptionError:
                if may_be_torn and _is_torn(file.content, position):
                    return
                raise
            wanted = file.offset if self.log_offset is None else self.log_offset
            if batch.base_offset != wanted:
                reason = f"a batch begins at offset {batch.base_offset}, not {wanted}"
                raise CorruptionError(file.path, position, reason)
            yield from self._take(file, position, batch, from_offset=snapshot_end)
            self.log_offset = batch.next_offset
            if batch.next_offset > self.replay.end_offset:
                self.replay.end_offset = batch.next_offset
                self.replay.epoch = batch.partition_leader_epoch
            position += batch.size
            yield

    def _take(
        self, file: MetadataFile, position: int, batch: Batch, *, from_offset: int
    ) -> Generator[None, None, list[ControlRecordType | None]]:
        """Replays the records from `from_offset`; returns the control type of each record."""
        kinds: list[ControlRecordType | None] = []
        try:
            for number, record in enumerate(read_records(batch), 1):
                if not number % RECORDS_PER_STEP:
                    yield
                value = record.value or b""
                kind = control_type(record.key) if batch.is_control else None
                kinds.append(kind)
                if kind is not None:
                    self._take_voters(decode_control_record(kind, value))
                elif not batch.is_control and record.offset >= from_offset:
                    self._replay(value)
        except (InvalidBatchError, ProtocolError) as error:
            raise CorruptionError(file.path, position, str(error)) from error
        except KeyError as error:
            reason = "a record changes a topic or partition that no earlier record has created"
            raise CorruptionError(file.path, position, reason) from error
        return kinds

    @property
    def head(self) -> list[Message]:
        """What a snapshot of the log says of voters behind its header."""
        return [one for one in (self._version, self._voters) if one is not None]

    def _take_voters(self, record: Message) -> None:
        if isinstance(record, LeaderChangeMessage | VotersRecord):
            self.replay.voters = frozenset(one.voter_id for one in record.voters)
        if isinstance(record, KRaftVersionRecord):
            self._version = record
        elif isinstance(record, VotersRecord):
            self._voters = record

    def _replay(self, value: bytes) -> None:
        try:
            record, _ = decode_record(value)
        except UnknownRecordError as error:
            if error.api_key not in ABOUT_NODES:
                raise
            return
        self.replay.replay(record)


def is_idle(content: bytes) -> bool:
    """Whether whole batches have only what leads and keeps a quorum: control and NoOp records."""
    position = 0
    try:
        while position < len(content):
            batch = batch_at(content, position)
            batch.check()
            values = (record.value or b"" for record in read_records(batch))
            if not (batch.is_control or all(map(_is_no_op, values))):
                return False
            position += batch.size
    except (InvalidBatchError, ProtocolError):
        return False
    return True


def _is_no_op(value: bytes) -> bool:
    return isinstance(decode_record(value)[0], NoOpRecord)


def _batch(file: MetadataFile, position: int) -> Batch:
    try:
        batch = batch_at(file.content, position)
        batch.check()
    except InvalidBatchError as error:
        raise CorruptionError(file.path, position, str(error)) from error
    return batch


def _is_torn(content: bytes, position: int) -> bool:
    """Whether a power failure may have left this of batches that were not synced, and not damage of
    one that was.

    What was not written is zeros, up to where a later batch was; a flipped bit leaves none.
    """
    after = _next_sound(content, position + 1)
    if after is None:
        return True
    lost = content[position:after]
    zeros = len(lost) - len(lost.rstrip(b"\0"))
    return not any(lost[:LENGTH_END]) or zeros >= ZEROS_AT_END or bytes(ZEROS_INSIDE) in lost


def _next_sound(content: bytes, position: int) -> int | None:
    """Where the next whole batch is."""
    while (found := content.find(b"\2", position + MAGIC_POSITION)) >= 0:
        position = found - MAGIC_POSITION
        try:
            batch_at(content, position).check()
        except InvalidBatchError:
            position += 1
        else:
            return position
    return None
