"""What a segment's own witness says of its log: see `segment_witness`.

Format page: docs/format/ottla-witness.md.
"""

from collections.abc import Iterator

from ottla.base.errors import CorruptionError
from ottla.base.files import File, FileSystem, join, read_file
from ottla.record.layout import BASE_OFFSET
from ottla.storage.diagnosis.findings import Finding, FindingKind
from ottla.storage.files.checksummed import without_checksum
from ottla.storage.files.filenames import log_file_name, witness_file_name
from ottla.storage.files.segment_witness import (
    SegmentWitness,
    WrongPlace,
    parse_segment_witness,
    wrong_places,
)


def witness_findings(
    file_system: FileSystem, directory: str, base_offset: int
) -> Iterator[Finding]:
    """Of a segment that is compacted, batches that are not where they were; raises `OSError`."""
    path = join(directory, witness_file_name(base_offset))
    try:
        witness = parse_segment_witness(path, without_checksum(path, read_file(file_system, path)))
    except FileNotFoundError:
        return
    except CorruptionError as error:
        kind = FindingKind.CHECKPOINT
        yield Finding(kind=kind, path=path, position=None, reason=error.reason)
        return
    log = file_system.open(join(directory, log_file_name(base_offset)))
    try:
        yield from _findings(log, witness)
    finally:
        log.close()


def _findings(log: File, witness: SegmentWitness) -> Iterator[Finding]:
    def read(position: int, size: int) -> bytes:
        return log.pread(size, position)

    for wrong in wrong_places(witness, read, 0, log.size()):
        yield _finding(wrong, log.path, read(wrong.position, BASE_OFFSET.size))


def _finding(wrong: WrongPlace, path: str, found: bytes) -> Finding:
    """What is not known to be mended by one field is only named."""
    is_offset = wrong.base_offset is None or BASE_OFFSET.unpack(found) != (wrong.base_offset,)
    return Finding(
        kind=FindingKind.BATCH_OFFSET if is_offset else FindingKind.BATCH_EPOCH,
        path=path,
        position=wrong.position,
        reason=wrong.reason,
        offset=wrong.base_offset if is_offset else None,
        epoch=None if is_offset else wrong.epoch,
    )
