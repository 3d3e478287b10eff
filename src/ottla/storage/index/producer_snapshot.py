"""`.snapshot`: a log's producer state at one offset.

Format page: docs/format/producer-snapshot.md. The file has a checksum and is replaced atomically; a
crash can leave a torn file only on a disk that ignores fsync. Kafka's counterpart:
`ProducerStateManager.writeSnapshot`.
"""

from collections.abc import Iterator, Mapping, Sequence
from struct import Struct

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, read_file, replace_file
from ottla.base.values import dataclass
from ottla.codec.crc32c import crc32c, extended_crc32c
from ottla.storage.findings import Finding, FindingKind, finding_of

HEADER = Struct(
    ">"
    "h"  # version, 1
    "I"  # CRC-32C of all that follows
    "i"  # count of entries
)
assert HEADER.size == 10
CRC_END = 6

ENTRY = Struct(
    ">"
    "q"  # producer id
    "h"  # producer epoch
    "i"  # last sequence number
    "q"  # last offset
    "i"  # offset delta: the last batch's last offset less its first
    "q"  # timestamp of the last batch
    "i"  # epoch of the coordinator that wrote the last marker
    "q"  # first offset of the open transaction, -1 for none
)
assert ENTRY.size == 46

VERSION = 1
NO_OFFSET = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSnapshotEntry:
    """One producer. `transaction_first_offset` is `None` outside a transaction."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int
    coordinator_epoch: int
    transaction_first_offset: int | None


def read_snapshot(
    file_system: FileSystem, path: str, expected: int | None = None
) -> tuple[list[ProducerSnapshotEntry], int]:
    """Returns the entries in the file's order, and its checksum. `expected` is the checksum
    recorded elsewhere, since an intact snapshot may be another log's. Raises `CorruptionError`,
    `FileNotFoundError`.
    """
    content = read_file(file_system, path)
    entries, checksum = parse_snapshot(path, content), checksum_of(content)
    if expected not in (None, checksum):
        raise CorruptionError(path, 2, "it is intact, but not the snapshot that was taken here")
    return entries, checksum


def checksum_of(content: bytes) -> int:
    """Returns the checksum in a snapshot's header."""
    _, checksum, _ = HEADER.unpack_from(content)
    assert isinstance(checksum, int)
    return checksum


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedSnapshot:
    """A snapshot file with its entries and checksum, or with what is wrong with it."""

    offset: int
    path: str
    entries: Sequence[ProducerSnapshotEntry] = ()
    checksum: int = 0
    fault: Finding | None = None


def judged_snapshots(
    file_system: FileSystem, snapshots: Mapping[int, str], checksums: Mapping[int, int]
) -> Iterator[JudgedSnapshot]:
    """Reads snapshots, the newest first, and judges each; leaves out those that vanished meanwhile.

    `snapshots` are the paths of existing snapshots, `checksums` the recorded ones, by offset.
    """
    for offset in sorted(snapshots, reverse=True):
        path = snapshots[offset]
        try:
            entries, checksum = read_snapshot(file_system, path, checksums.get(offset))
        except FileNotFoundError:
            continue
        except CorruptionError as error:
            fault = finding_of(FindingKind.PRODUCER_SNAPSHOT, error)
            yield JudgedSnapshot(offset=offset, path=path, fault=fault)
        else:
            yield JudgedSnapshot(offset=offset, path=path, entries=entries, checksum=checksum)


def newest_snapshot(
    file_system: FileSystem,
    snapshots: Mapping[int, str],
    checksums: Mapping[int, int],
    usable: range,
) -> JudgedSnapshot | None:
    """The newest sound snapshot at a usable offset; `None` if there is none."""
    some = {offset: path for offset, path in snapshots.items() if offset in usable}
    found = judged_snapshots(file_system, some, checksums)
    return next((one for one in found if one.fault is None), None)


def write_snapshot(
    file_system: FileSystem,
    path: str,
    entries: Sequence[ProducerSnapshotEntry],
    *,
    durably: bool = True,
) -> int:
    """Writes the entries in the order given; Kafka's is that of a hash table. Returns the file's
    checksum.
    """
    content = format_snapshot(entries)
    replace_file(file_system, path, content, durably=durably)
    return checksum_of(content)


def format_snapshot(entries: Sequence[ProducerSnapshotEntry]) -> bytes:
    return format_rows(b"".join([_row(one) for one in entries]))


def _row(entry: ProducerSnapshotEntry) -> bytes:
    first = entry.transaction_first_offset
    return ENTRY.pack(
        entry.producer_id,
        entry.epoch,
        entry.last_sequence,
        entry.last_offset,
        entry.offset_delta,
        entry.timestamp_ms,
        entry.coordinator_epoch,
        NO_OFFSET if first is None else first,
    )


def format_rows(rows: bytes) -> bytes:
    """The file of packed entries."""
    count = len(rows) // ENTRY.size
    header = HEADER.pack(VERSION, 0, count)
    checksum = extended_crc32c(rows, crc32c(header[CRC_END:]))
    return HEADER.pack(VERSION, checksum, count) + rows


def parse_snapshot(path: str, content: bytes) -> list[ProducerSnapshotEntry]:
    """The inverse of `format_snapshot`; raises `CorruptionError`."""
    if len(content) < HEADER.size:
        raise CorruptionError(path, len(content), "the header is cut short")
    version, crc, count = HEADER.unpack_from(content)
    if version != VERSION:
        raise CorruptionError(path, 0, f"version {version} instead of {VERSION}")
    if crc32c(memoryview(content)[CRC_END:]) != crc:
        raise CorruptionError(path, 2, "the checksum is wrong")
    if len(content) != HEADER.size + count * ENTRY.size:
        raise CorruptionError(path, CRC_END, f"{count} entries do not make {len(content)} bytes")
    return [_entry(fields) for fields in ENTRY.iter_unpack(content[HEADER.size :])]


def _entry(fields: tuple[int, ...]) -> ProducerSnapshotEntry:
    producer_id, epoch, sequence, offset, delta, timestamp_ms, coordinator_epoch, first = fields
    return ProducerSnapshotEntry(
        producer_id=producer_id,
        epoch=epoch,
        last_sequence=sequence,
        last_offset=offset,
        offset_delta=delta,
        timestamp_ms=timestamp_ms,
        coordinator_epoch=coordinator_epoch,
        transaction_first_offset=None if first < 0 else first,
    )
