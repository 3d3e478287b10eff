"""What must hold in a quorum after every step, whatever happens to messages, disks and clocks."""

import hashlib
from typing import NamedTuple

from ottla.quorum.messages import SnapshotId, Vote
from ottla.quorum.voters import ReplicaKey
from ottla.record.batch import batch_at
from ottla.record.record import read_records
from ottla.testing.history import Assign, Operation, Outcome, Poll, Read, Send, check
from tests.simulation.quorum_disk import Entry, MemoryDirectory

LOG = "log"


class Append(NamedTuple):
    """A client's append, until it is known to be committed."""

    value: str
    offset: int
    epoch: int
    began: int


class Invariants:
    """`committed` is every batch that any node has ever called committed."""

    def __init__(self) -> None:
        self.leaders: dict[int, ReplicaKey] = {}
        self.votes: dict[tuple[ReplicaKey, int], ReplicaKey] = {}
        self.committed: dict[int, Entry] = {}
        self.committed_end = 0
        self.digests: dict[int, str] = {0: ""}
        """Of everything that is committed below an offset."""
        self.history: list[Operation] = []
        self._time = 0

    def tick(self) -> int:
        self._time += 1
        return self._time

    # Elections

    def voted(self, voter: ReplicaKey, request: Vote) -> None:
        before = self.votes.setdefault((voter, request.epoch), request.candidate)
        assert before == request.candidate, f"{voter.id} voted twice in epoch {request.epoch}"

    def forget_candidacies(self, key: ReplicaKey, seen_epoch: int) -> None:
        """Of epochs that nobody else has seen: no vote of theirs can make it a leader."""
        for (voter, epoch), candidate in list(self.votes.items()):
            if voter == candidate == key and epoch > seen_epoch:
                del self.votes[voter, epoch]

    def leads(self, key: ReplicaKey, epoch: int, log: MemoryDirectory) -> None:
        before = self.leaders.setdefault(epoch, key)
        assert before == key, f"{before.id} and {key.id} lead epoch {epoch}"
        if epoch < max(self.leaders):
            return  # Its votes came late: it cannot commit, and will be told of the newer epoch.
        assert log.log_end_offset >= self.committed_end, "a leader lacks what is committed"
        self._compare(log, log.log_start_offset)

    def _compare(self, log: MemoryDirectory, from_offset: int) -> None:
        for one in log.content.entries:
            known = self.committed.get(one.base_offset)
            if known is not None and one.base_offset >= from_offset:
                assert known == one, f"the committed record at {one.base_offset} was changed"

    # The log

    def committed_until(self, log: MemoryDirectory, from_offset: int, offset: int) -> list[Read]:
        """A node calls what is below `offset` committed; returns what a reader sees of it."""
        assert offset <= log.log_end_offset, "more is committed than there is"
        found: list[Read] = []
        for one in log.content.entries:
            if one.next_offset <= from_offset:
                continue
            if one.base_offset >= offset:
                break
            known = self.committed.setdefault(one.base_offset, one)
            assert known == one, f"two records are committed at {one.base_offset}"
            found += reads_of(one)
            self._digest(one)
        return found

    def _digest(self, one: Entry) -> None:
        if one.next_offset > self.committed_end:
            assert one.base_offset == self.committed_end, "a gap in what is committed"
            before = self.digests[self.committed_end]
            self.committed_end = one.next_offset
            self.digests[one.next_offset] = hashlib.md5(
                before.encode() + one.content, usedforsecurity=False
            ).hexdigest()

    def loaded(self, snapshot: SnapshotId, digest: str) -> None:
        assert digest == self.digests[snapshot.end_offset], "a snapshot of another history"

    # Clients

    def sent(self, append: Append, offset: int | None) -> None:
        """The end of an append: its offset if it is committed, `None` if nobody knows."""
        self.history.append(
            Send(
                process="writer " + append.value,
                began=append.began,
                ended=self.tick() if offset is not None else None,
                partition=LOG,
                value=append.value,
                outcome=Outcome.UNKNOWN if offset is None else Outcome.OK,
                offset=offset,
            )
        )

    def begins_to_read(self, reader: str, offset: int) -> None:
        began = self.tick()
        positions = {LOG: offset}
        self.history.append(
            Assign(process=reader, began=began, ended=self.tick(), positions=positions)
        )

    def read(self, reader: str, records: list[Read]) -> None:
        if records:
            began = self.tick()
            self.history.append(
                Poll(process=reader, began=began, ended=self.tick(), records=tuple(records))
            )

    def check_history(self) -> None:
        self.begins_to_read("last", 0)
        entries = [self.committed[one] for one in sorted(self.committed)]
        self.read("last", [read for one in entries for read in reads_of(one)])
        findings = check(self.history)
        assert not findings, str(findings[0])


def reads_of(entry: Entry) -> list[Read]:
    batch = batch_at(entry.content, 0)
    if batch.is_control:
        return []
    return [Read(LOG, one.offset, (one.value or b"").decode()) for one in read_records(batch)]
