"""Reads all entries of an offset or time index, sound or not.

Format pages: docs/format/offset-index.md, docs/format/time-index.md. `SparseIndex` relies on
ascending entries and finds the zero tail by bisection, so a check cannot use it.
"""

from ottla.base.values import dataclass
from ottla.storage.diagnosis.roles import Role
from ottla.storage.index import offset_index, time_index

ENTRIES = {Role.OFFSET_INDEX: offset_index.ENTRY, Role.TIME_INDEX: time_index.ENTRY}


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexContent:
    """Pairs of (absolute offset, position) or of (timestamp_ms, absolute offset)."""

    entries: list[tuple[int, int]]
    entry_size: int
    free_size: int
    """The number of preallocated bytes."""
    excess_size: int
    """The number of bytes at the end that are less than an entry."""

    def position_of(self, number: int) -> int:
        return number * self.entry_size

    @property
    def excess_position(self) -> int:
        return len(self.entries) * self.entry_size + self.free_size


def parse_index(content: bytes, role: Role, base_offset: int) -> IndexContent:
    """Parses an index; zero entries at the end are preallocated space, others are entries."""
    # A time index trimmed to one zero entry has timestamp 0 at the base offset.
    layout = ENTRIES[role]
    whole_size = len(content) - len(content) % layout.size
    used_size = -(-len(content[:whole_size].rstrip(b"\0")) // layout.size) * layout.size
    if role is Role.TIME_INDEX and whole_size == layout.size:
        used_size = whole_size
    pairs = layout.iter_unpack(content[:used_size])
    if role is Role.OFFSET_INDEX:
        entries = [(base_offset + relative, position) for relative, position in pairs]
    else:
        entries = [(timestamp_ms, base_offset + relative) for timestamp_ms, relative in pairs]
    return IndexContent(
        entries=entries,
        entry_size=layout.size,
        free_size=whole_size - used_size,
        excess_size=len(content) - whole_size,
    )
