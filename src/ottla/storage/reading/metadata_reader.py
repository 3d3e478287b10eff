"""Reads `__remote_log_metadata` in log directories: which uploads the tier has of each partition.

Records above the high watermark are read too; at rest they are what a leader would go by. Kafka's
counterpart: `ConsumerTask`, which reads the topic through brokers.
"""

from collections.abc import Callable, Collection

from ottla.base.errors import CorruptionError
from ottla.base.files import join
from ottla.base.values import dataclass
from ottla.codec.api_messages import UnknownRecordError
from ottla.record.record import Record
from ottla.storage.files.filenames import REMOTE_LOG_METADATA, partition_directory_name
from ottla.storage.findings import Finding, FindingKind
from ottla.storage.reading.locating import locate
from ottla.storage.reading.overtaking import ask_log
from ottla.storage.reading.read_only_directory import LostPartitionError, ReadOnlyLogDirectory
from ottla.storage.reading.read_only_log import ReadOnlyLog
from ottla.storage.remote.metadata_records import decode_event
from ottla.storage.remote.segment_index import SegmentIndexes


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteLogMetadata:
    """What the records say; without partitions of the topic, nothing."""

    indexes: SegmentIndexes
    partitions: tuple[int, ...]
    """The partitions of `__remote_log_metadata` that the directories have, or had."""
    findings: tuple[Finding, ...]
    """Damage, whose records are missing, and records that contradict those before them."""


def read_remote_log_metadata(directories: Collection[ReadOnlyLogDirectory]) -> RemoteLogMetadata:
    """The uploads of all partitions, as the log directories of one broker say.

    Damage is skipped and reported, whatever the directories do about other damage. Raises
    `UserError` if a partition of the topic is in two directories.
    """
    findings: list[Finding] = []
    indexes = SegmentIndexes()
    again = [
        ReadOnlyLogDirectory(one.path, one.file_system, findings.append) for one in directories
    ]
    here = locate(again, lambda topic, _: topic == REMOTE_LOG_METADATA).get(REMOTE_LOG_METADATA, {})
    for partition, directory in sorted(here.items()):
        _PartitionReading(directory, partition, indexes, findings.append).read()
    return RemoteLogMetadata(
        indexes=indexes, partitions=tuple(sorted(here)), findings=tuple(findings)
    )


class _PartitionReading:
    """Applies the records of one partition, and names what cannot be applied."""

    def __init__(
        self,
        directory: ReadOnlyLogDirectory,
        partition: int,
        indexes: SegmentIndexes,
        report: Callable[[Finding], None],
    ) -> None:
        self._directory = directory
        self._partition = partition
        self._indexes = indexes
        self._report = report
        self._next_offset = 0
        self._name = join(directory.path, partition_directory_name(REMOTE_LOG_METADATA, partition))

    def read(self) -> None:
        try:
            ask_log(self._find, self._read)
        except LostPartitionError as error:
            self._found(FindingKind.LOST_PARTITION, str(error))
        except CorruptionError as error:
            self._report(
                Finding(
                    kind=FindingKind.REMOTE_LOG_METADATA,
                    path=error.path,
                    position=error.position,
                    reason=error.reason,
                )
            )

    def _find(self) -> ReadOnlyLog:
        return self._directory.partition(REMOTE_LOG_METADATA, self._partition)

    def _read(self, log: ReadOnlyLog) -> None:
        start = log.log_start_offset
        if start > self._next_offset:
            reason = f"its records before offset {start} were deleted: uploads may be unknown"
            self._found(FindingKind.STATE, reason)
        for record in log.records.read(max(start, self._next_offset)):
            self._next_offset = record.offset + 1
            self._take(record)

    def _take(self, record: Record) -> None:
        try:
            refusal = self._indexes.apply(decode_event(record.value or b""))
        except CorruptionError as error:
            refusal = error.reason
        except UnknownRecordError as error:
            refusal = f"{error}; what it says of uploads is unknown"
        if refusal is not None:
            reason = f"the record at offset {record.offset}: {refusal}"
            self._found(FindingKind.REMOTE_LOG_METADATA, reason)

    def _found(self, kind: FindingKind, reason: str) -> None:
        self._report(Finding(kind=kind, path=self._name, position=None, reason=reason))
