"""Compares the integrity file with a partition's files.

Format page: docs/format/ottla-integrity.md.
"""

from collections.abc import Iterator
from dataclasses import replace

from ottla.base.files import FileSystem, join
from ottla.storage.files.filenames import (
    INTEGRITY,
    log_file_name,
    transaction_index_file_name,
)
from ottla.storage.files.integrity import (
    NOTHING_KNOWN,
    Integrity,
    changed_index,
    integrity_damage,
    read_integrity,
)
from ottla.storage.files.log_file import LogFile
from ottla.storage.findings import Finding, FindingKind
from ottla.storage.segment.partition_files import listed_base_offsets
from ottla.storage.segment.segment_facts import wrong_file

Place = tuple[str, int]
"""A partition's directory and the base offset of a segment."""


def read_own(file_system: FileSystem, directory: str) -> tuple[Integrity | None, list[Finding]]:
    """The integrity file of a partition, and findings about it; raises `OSError`."""
    known = read_integrity(file_system, directory)
    if known is not None:
        # Parsed once, since each segment's facts are asked for several times.
        known = replace(known, segments=dict(known.segments))
    is_sound = known is not None and known.is_whole
    reason = None if is_sound else integrity_damage(file_system, directory)
    if reason is None:
        return known, []
    path = join(directory, INTEGRITY)
    return known, [Finding(kind=FindingKind.CHECKPOINT, path=path, position=None, reason=reason)]


def wrong_file_findings(log: LogFile, base_offset: int, integrity: Integrity) -> Iterator[Finding]:
    """A log file that belongs to another segment."""
    found = wrong_file(log, integrity.segments.get(base_offset, NOTHING_KNOWN))
    if found is not None:
        yield found


def cut_short_findings(
    file_system: FileSystem, directory: str, integrity: Integrity, log_start_offset: int
) -> Iterator[Finding]:
    """Log files of inactive segments that have lost their ends."""
    bases = sorted(listed_base_offsets(file_system, directory))
    names = [log_file_name(one) for one in bases]
    sizes = file_system.sizes(directory, names)
    for number, following in enumerate(bases[1:]):
        has = sizes[number]
        had = integrity.segments.get(bases[number], NOTHING_KNOWN).size
        if following <= log_start_offset or had is None or has is None or has >= had:
            continue
        yield Finding(
            kind=FindingKind.LOST_OFFSETS,
            path=join(directory, names[number]),
            position=has,
            reason=f"has {has} bytes instead of {had}: the records at its end are lost",
        )


def changed_index_findings(
    file_system: FileSystem, place: Place, integrity: Integrity
) -> Iterator[Finding]:
    """A transaction index that does not match its checksum."""
    directory, base_offset = place
    path = join(directory, transaction_index_file_name(base_offset))
    facts = integrity.segments.get(base_offset, NOTHING_KNOWN)
    found = changed_index(file_system, path, facts)
    if found is not None:
        yield found
