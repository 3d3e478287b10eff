"""A metadata directory in memory, which forgets in a crash what was not synced."""

from collections.abc import Iterable
from random import Random
from typing import NamedTuple

from ottla.base.files import Buffer
from ottla.metadata.control import SnapshotHeaderRecord
from ottla.metadata.log_writing import control_batch
from ottla.quorum.election_state import ElectionState
from ottla.quorum.messages import SnapshotId
from ottla.quorum.voters import VoterSet, voter_records
from ottla.record.batch import iter_batches
from ottla.record.builder import RecordBatchBuilder


class Entry(NamedTuple):
    base_offset: int
    next_offset: int
    epoch: int
    content: bytes


class Content:
    """The records of a log."""

    def __init__(self, start: int = 0, entries: Iterable[Entry] = ()) -> None:
        self.start = start
        self.entries = list(entries)

    @property
    def end(self) -> int:
        return self.entries[-1].next_offset if self.entries else self.start

    def append(self, entries: tuple[Entry, ...]) -> None:
        self.entries += entries

    def truncate_to(self, offset: int) -> None:
        while self.entries and self.entries[-1].next_offset > offset:
            self.entries.pop()

    def start_at(self, offset: int) -> None:
        self.start, self.entries = offset, []

    def delete_before(self, offset: int) -> None:
        self.start = offset
        self.entries = [one for one in self.entries if one.base_offset >= offset]


class MemoryDirectory:
    """`__cluster_metadata-0` with snapshots and `quorum-state`: a `QuorumLog`."""

    def __init__(self) -> None:
        self.election: ElectionState | None = ElectionState()
        self.content = Content()
        self.complete: dict[SnapshotId, bytes] = {}
        self.parts: dict[SnapshotId, bytearray] = {}
        self._durable = Content()
        self._pending: list[tuple[str, object]] = []

    # Crashes

    def sync(self, until_offset: int) -> None:
        """Everything that was done so far is durable."""
        assert until_offset <= self.content.end
        for name, argument in self._pending:
            getattr(self._durable, name)(argument)
        self._pending.clear()

    def crash(self, chance: Random) -> None:
        """Of what was not synced a part is left, in the order in which it was done."""
        for name, argument in self._pending[: chance.randint(0, len(self._pending))]:
            getattr(self._durable, name)(argument)
        self.content = Content(self._durable.start, self._durable.entries)
        self._pending.clear()
        self.parts.clear()

    def _do(self, name: str, argument: object) -> None:
        getattr(self.content, name)(argument)
        self._pending.append((name, argument))

    # A QuorumLog

    @property
    def log_start_offset(self) -> int:
        return self.content.start

    @property
    def log_end_offset(self) -> int:
        return self.content.end

    @property
    def epochs(self) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for one in self.content.entries:
            if not found or found[-1][0] != one.epoch:
                found.append((one.epoch, one.base_offset))
        return found

    @property
    def snapshots(self) -> list[SnapshotId]:
        return list(self.complete)

    def read(self, offset: int, max_bytes: int) -> bytes:
        found, size = list[bytes](), 0
        for one in self.content.entries:
            if one.base_offset < offset:
                continue
            size += len(one.content)
            if found and size > max_bytes:
                break
            found.append(one.content)
        return b"".join(found)

    def append(self, records: Buffer) -> None:
        entries = tuple(
            Entry(
                one.base_offset,
                one.next_offset,
                one.partition_leader_epoch,
                bytes(one.bytes_view()),
            )
            for one in iter_batches(records, allow_torn_tail=True)
        )
        assert entries[0].base_offset == self.content.end
        self._do("append", entries)

    def truncate_to(self, offset: int) -> None:
        self._do("truncate_to", offset)

    def start_at(self, offset: int) -> None:
        self._do("start_at", offset)

    def delete_records_before(self, offset: int) -> None:
        self._do("delete_before", offset)

    def read_snapshot(self, snapshot: SnapshotId, position: int, max_bytes: int) -> bytes:
        return self.complete[snapshot][position : position + max_bytes]

    def snapshot_size(self, snapshot: SnapshotId) -> int:
        return len(self.complete[snapshot])

    def write_snapshot(self, snapshot: SnapshotId, position: int, content: Buffer) -> None:
        part = self.parts.setdefault(snapshot, bytearray())
        del part[position:]
        assert len(part) == position
        part += content

    def finish_snapshot(self, snapshot: SnapshotId) -> None:
        self.complete[snapshot] = bytes(self.parts.pop(snapshot))

    def delete_snapshots_before(self, snapshot: SnapshotId) -> None:
        self.complete = {key: one for key, one in self.complete.items() if key >= snapshot}


def snapshot_content(kraft_version: int, voters: VoterSet, digest: str) -> bytes:
    """A snapshot whose only record is a digest of what it stands for."""
    head = [SnapshotHeaderRecord(), *voter_records(kraft_version, voters)]
    body = RecordBatchBuilder(len(head), leader_epoch=0)
    body.append(None, digest.encode(), 0)
    return control_batch(head, 0, 0, 0) + bytes(body.build())
