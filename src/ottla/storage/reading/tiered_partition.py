"""The files of a partition that lie in its tier, as if they lay in the partition's folder."""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from struct import iter_unpack
from typing import Final

from ottla.base.errors import CorruptionError
from ottla.base.files import FileStatus
from ottla.base.memory_files import ReadOnlyFile
from ottla.record.batch import InvalidBatchError, batch_at
from ottla.record.layout import HEADER_SIZE
from ottla.storage.files.filenames import FileKind, FileName, log_file_name
from ottla.storage.findings import Finding, FindingKind, finding_of
from ottla.storage.remote.lineage import Chain, Piece
from ottla.storage.remote.remote_storage import RemoteStorage
from ottla.storage.remote.segment_metadata import IndexType, RemoteLogSegmentMetadata

INDEXES: Final = {
    FileKind.OFFSET_INDEX: IndexType.OFFSET,
    FileKind.TIME_INDEX: IndexType.TIMESTAMP,
    FileKind.TRANSACTION_INDEX: IndexType.TRANSACTION,
}
NUMBERS: Final = {FileKind.LOG: 0, **{kind: 1 + one for kind, one in INDEXES.items()}}


OnDamage = Callable[[Finding], None]


class TieredPartition:
    """With `on_damage` what cannot be read of an upload is passed to it, once, and is zero bytes
    then, which no batch has: readers that step over damage find what is sound after it. Without,
    reads raise `CorruptionError`, and each gap is a segment too, whose reading raises it: the log
    must not seem to be whole without it.
    """

    def __init__(
        self, tier: RemoteStorage, found: Chain, on_damage: OnDamage | None = None
    ) -> None:
        self.chain = found
        self.start_offset = found.start_offset
        self._tier = tier
        self._uploads = {one.base_offset: one for one in _uploads(tier, found.pieces, on_damage)}
        gaps = [one for one in found.findings if one.lost is not None]
        self._gaps = {} if on_damage is not None else {one.from_offset: one for one in gaps}

    @property
    def segments(self) -> list["TieredSegment"]:
        """Those that the tier has, ascending."""
        return list(self._uploads.values())

    @property
    def end_offset(self) -> int:
        """The offset after the last one that the tier has; the log's start if it has none."""
        last = max((one.last_offset for one in self._uploads.values()), default=None)
        return self.start_offset if last is None else last + 1

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(
            FileName(offset=base_offset, kind=kind).text
            for base_offset, one in self._uploads.items()
            for kind in one.kinds
        ).union(map(log_file_name, self._gaps))

    def has(self, name: FileName) -> bool:
        if name.offset in self._gaps:
            return name.kind is FileKind.LOG
        upload = self._uploads.get(name.offset)
        return upload is not None and name.kind in upload.kinds

    def status(self, name: FileName) -> FileStatus:
        if name.offset in self._gaps:
            return FileStatus(number=0, size=1, modified_ms=0, is_directory=False)
        upload = self._uploads[name.offset]
        number = int.from_bytes(upload.segment.segment_id[:7], "big") * 8 + NUMBERS[name.kind]
        is_log = name.kind is FileKind.LOG
        return FileStatus(
            number=number,
            size=upload.size if is_log else len(upload.index(INDEXES[name.kind])),
            modified_ms=upload.segment.event_timestamp_ms,
            is_directory=False,
        )

    def open(self, path: str, name: FileName) -> "RemoteFile":
        if name.offset in self._gaps:
            raise CorruptionError(
                path,
                0,
                f"{self._gaps[name.offset].reason}, {self._tier.address}; put it back from a copy "
                f"of the tier; `ottla records`, `load`, `audit` and `mirror` continue after it "
                f"with --skip-damaged",
            )
        upload = self._uploads[name.offset]
        if name.kind is FileKind.LOG:
            return RemoteFile(path, upload.size, upload.read)
        content = upload.index(INDEXES[name.kind])
        return RemoteFile(path, len(content), lambda at, size: content[at : at + size])


class TieredSegment:
    """An upload as a segment, whose first or last offsets may be another one's."""

    def __init__(
        self,
        tier: RemoteStorage,
        segment: RemoteLogSegmentMetadata,
        first: int,
        last: int,
        on_damage: OnDamage | None = None,
    ) -> None:
        self._tier = tier
        self._on_damage = on_damage
        self._is_unreadable = False
        self.segment = segment
        self.base_offset = first
        self.last_offset = last
        self.is_whole = (first, last) == (segment.start_offset, segment.end_offset)
        self._bounds = (0, segment.size) if self.is_whole else None
        # The offset and the time index count from the base offset, and from the file's begin.
        kinds = {FileKind.LOG, *(INDEXES if self.is_whole else ()), FileKind.TRANSACTION_INDEX}
        if segment.has_no_transactions:
            kinds.discard(FileKind.TRANSACTION_INDEX)
        self.kinds = frozenset(kinds)

    @property
    def size(self) -> int:
        start, end = self._range()
        return end - start

    def read(self, position: int, size: int) -> bytes:
        start, end = self._range()
        return self._read(start + position, min(size, end - start - position))

    def index(self, kind: IndexType) -> bytes:
        """The file; empty if the upload has none."""
        try:
            return self._tier.read_index(self.segment, kind) or b""
        except CorruptionError as error:
            self._report(error)
        return b""  # Without an index its log is read from the beginning.

    def _read(self, position: int, size: int) -> bytes:
        if self._is_unreadable:
            return bytes(size)
        try:
            return self._tier.read_log(self.segment, position, size)
        except CorruptionError as error:
            self._report(error)
        try:
            self._tier.log_size(self.segment)
        except CorruptionError:
            self._is_unreadable = True  # All of it: the object is not asked for again.
        return bytes(size)

    def _report(self, error: CorruptionError) -> None:
        """Passes damage on if it is to be stepped over, and raises it otherwise."""
        if self._on_damage is None:
            raise error
        self._on_damage(finding_of(FindingKind.REMOTE_OBJECT, error))

    def _range(self) -> tuple[int, int]:
        """Where in the upload's `.log` this segment begins and ends."""
        if self._bounds is None:
            end = self._position_of(self.last_offset + 1)
            self._bounds = self._position_of(self.base_offset), end
        return self._bounds

    def _position_of(self, offset: int) -> int:
        """The position of the first batch that ends at an offset, or after it."""
        segment = self.segment
        if offset > segment.end_offset:
            return segment.size
        position = 0
        for relative, at in iter_unpack(">ii", self.index(IndexType.OFFSET)):
            if position < at < segment.size and segment.start_offset + relative < offset:
                position = at
        while position < segment.size:
            try:
                batch = batch_at(self._read(position, HEADER_SIZE))
            except InvalidBatchError as error:
                if self._on_damage is None:
                    path = self._tier.path_of(segment, None)
                    raise CorruptionError(path, position, str(error)) from error
                break  # Readers step over it, and over what is not of this part.
            if batch.last_offset >= offset:
                break
            position += batch.size
        return position


def _uploads(
    tier: RemoteStorage, pieces: Sequence[Piece], on_damage: OnDamage | None
) -> Iterator[TieredSegment]:
    """Each from its own start, unless the piece before it has that; a log may start within one."""
    before = -1
    for piece in pieces:
        start = piece.segment.start_offset
        first = start if start > before else piece.first_offset
        yield TieredSegment(tier, piece.segment, first, piece.last_offset, on_damage)
        before = piece.last_offset


class RemoteFile(ReadOnlyFile):
    """An upload's file; `read` gets a position and a size in bytes. The tier keeps what it has
    read, within bounds.
    """

    __slots__ = ("_read", "_size")

    def __init__(self, path: str, size: int, read: Callable[[int, int], bytes]) -> None:
        super().__init__(path)
        self._size = size
        self._read = read

    def duplicate(self) -> "RemoteFile":
        return RemoteFile(self.path, self._size, self._read)

    def size(self) -> int:
        return self._size

    def pread(self, size: int, position: int) -> bytes:
        wanted = min(size, self._size - position)
        return self._read(position, wanted) if wanted > 0 else b""

    def map(self, size: int) -> memoryview:
        if size > self._size:
            raise ValueError(f"a map of {size} bytes is longer than {self.path}")
        return memoryview(self.pread(size, 0))
