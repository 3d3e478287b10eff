"""Checks the files of a metadata log without replaying them: sizes, checksums, order of offsets.

Whoever replays the log does so later, as far as its records are committed.
"""

from collections import deque
from collections.abc import Sequence

from ottla.base.errors import CorruptionError
from ottla.metadata.log_files import LogReading, MetadataFile
from ottla.record.batch import Batch, InvalidBatchError
from ottla.record.control import ControlRecordType, control_type
from ottla.record.record import read_records


def check_log(
    snapshots: Sequence[MetadataFile], segments: Sequence[MetadataFile], *, may_be_torn: bool
) -> int:
    """The offset where the segments end; 0 without any. Both are sorted.

    It is less than the newest snapshot's after a crash while that was fetched. `may_be_torn` says
    that the last segment may end with a torn batch. Raises `CorruptionError` with the file and the
    position of the first damage.
    """
    for older in snapshots[:-1]:
        _drain(_LogCheck(), older, (), may_be_torn=False)
    check = _LogCheck()
    _drain(check, snapshots[-1] if snapshots else None, segments, may_be_torn=may_be_torn)
    if not segments:
        return 0
    last = segments[-1]
    if check.log_offset is None:
        return last.offset
    if last.offset > check.log_offset:
        reason = f"records from offset {check.log_offset} on are missing before it"
        raise CorruptionError(last.path, 0, reason)
    return check.log_offset


def _drain(
    check: "_LogCheck",
    snapshot: MetadataFile | None,
    segments: Sequence[MetadataFile],
    *,
    may_be_torn: bool,
) -> None:
    deque(check.steps(snapshot, segments, may_be_torn=may_be_torn), maxlen=0)


class _LogCheck(LogReading):
    """Looks into control batches only, whose types show whether a snapshot is complete."""

    def _take(
        self, file: MetadataFile, position: int, batch: Batch, *, from_offset: int
    ) -> list[ControlRecordType | None]:
        if not batch.is_control:
            return [None]
        try:
            return [control_type(record.key) for record in read_records(batch)]
        except InvalidBatchError as error:
            raise CorruptionError(file.path, position, str(error)) from error
