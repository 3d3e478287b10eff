"""What the integrity file says of a segment, compared with the segment's files.

Format page: docs/format/ottla-integrity.md. Kafka has no counterpart: a `.log` file does not say
which log it belongs to.
"""

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem
from ottla.storage import scan
from ottla.storage.files.integrity import SegmentFacts, checksum_of
from ottla.storage.files.log_file import LogFile


def segment_facts(file_system: FileSystem, log: LogFile, index_path: str) -> SegmentFacts:
    """The facts as the log file and the transaction index are now."""
    return SegmentFacts(
        first_checksum=first_checksum(log),
        aborted=checksum_of(file_system, index_path),
    )


def first_checksum(log: LogFile) -> int | None:
    """The checksum that the header of the first batch states; `None` without a batch."""
    first = scan.header_at(log, 0)
    return None if first is None else first.crc


def check_first_batch(log: LogFile, facts: SegmentFacts) -> None:
    """Raises `CorruptionError` for a log file that begins with another sound batch than it did.

    One that is not sound is damaged, and its own checksum says so.
    """
    found = first_checksum(log)
    if facts.first_checksum is None or found is None or found == facts.first_checksum:
        return
    try:
        scan.sound_batch(log, 0)
    except CorruptionError:
        return
    raise CorruptionError(
        log.path,
        0,
        f"its first batch has checksum {found:08x}, and had {facts.first_checksum:08x}: this is "
        "the file of another segment; put the right one in its place",
    )
