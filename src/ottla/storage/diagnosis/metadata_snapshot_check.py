"""Checks a snapshot of a KRaft cluster's metadata: every batch, and the header and footer records.

Format page: docs/format/cluster-metadata.md. Kafka writes a snapshot under another name, and
renames it when it is complete, so a crash leaves no incomplete snapshot. Kafka's counterpart:
`RecordsSnapshotReader`.
"""

from collections.abc import Iterator

from ottla.base.files import FileSystem
from ottla.record.batch import Batch, InvalidBatchError
from ottla.record.control import ControlRecordType, control_type
from ottla.record.record import read_records
from ottla.storage.damage_scan import DamagedRegion, scan_log
from ottla.storage.findings import Finding, FindingKind

ENDS = [ControlRecordType.SNAPSHOT_HEADER, ControlRecordType.SNAPSHOT_FOOTER]


def metadata_snapshot_findings(file_system: FileSystem, path: str) -> Iterator[Finding]:
    """The findings about the file; raises `OSError`."""
    file = file_system.open(path)
    first: Batch | None = None
    last: Batch | None = None
    is_damaged = False
    try:
        for one in scan_log(file, 0):
            if isinstance(one, DamagedRegion):
                is_damaged = True
                yield _finding(path, one.position, one.reason)
            else:
                first, last = first or one.batch, one.batch
        size = file.size()
    finally:
        file.close()
    if not is_damaged and [_kind(first, 0), _kind(last, -1)] != ENDS:
        yield _finding(path, size, "the snapshot is incomplete")


def _kind(batch: Batch | None, index: int) -> ControlRecordType | None:
    """The control type of the record at `index` in a batch; `None` for a data batch."""
    if batch is None or not batch.is_control:
        return None
    try:
        return control_type(list(read_records(batch))[index].key)
    except (InvalidBatchError, IndexError):
        return None


def _finding(path: str, position: int, reason: str) -> Finding:
    return Finding(kind=FindingKind.METADATA_SNAPSHOT, path=path, position=position, reason=reason)
