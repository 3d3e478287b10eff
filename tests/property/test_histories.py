"""Clients of a log that keeps every promise: whatever they do, no history of theirs is wrong.

And of a log that takes one record back: then it always is.
"""

import random
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.testing.history import (
    Assign,
    Begin,
    CommitOffsets,
    Crash,
    End,
    FindingKind,
    LogEnd,
    Operation,
    Outcome,
    Poll,
    Read,
    Send,
    check,
)

PARTITIONS = ("in-0", "in-1", "out-0")
PROCESSES = ("p1", "p2", "p3")
GROUP = "g"


@dataclass
class Entry:
    value: str
    transaction: str | None


@dataclass
class Client:
    """What one process knows: the places it reads from, and its open transaction."""

    is_committed: bool
    positions: dict[str, int] = field(default_factory=dict)
    pending: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    transaction: str | None = None
    offsets: dict[str, int] = field(default_factory=dict)


class RightLog:
    """A log of several partitions, with transactions, one group, and clients that lose answers."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 0
        self.names = 0
        self.logs: dict[str, list[Entry | None]] = {name: [] for name in PARTITIONS}
        self.fates: dict[str, bool | None] = {}
        self.committed: dict[str, int] = {}
        self.clients = {
            name: Client(is_committed=number != 1) for number, name in enumerate(PROCESSES)
        }
        self.history: list[Operation] = []

    def run(self, steps: int) -> list[Operation]:
        acts = [self.send, self.poll, self.begin, self.end, self.crash, self.assign, self.ask_end]
        for _ in range(steps):
            process = self.random.choice(PROCESSES)
            self.random.choices(acts, weights=[6, 6, 2, 3, 1, 2, 1])[0](process)
        return self.history

    # What clients do

    def send(self, process: str) -> None:
        client, partition, value = self.clients[process], self.a_partition(), self.name("v")
        outcome, happens = self.fortune()
        offset = self.append(partition, value, client.transaction) if happens else None
        known = offset if outcome is Outcome.OK else None
        send = Send(
            **self.times(process, outcome), partition=partition, value=value, outcome=outcome,
            offset=known, transaction=client.transaction,
        )  # fmt: skip
        self.history.append(send)

    def poll(self, process: str) -> None:
        client = self.clients[process]
        records: list[Read] = []
        for partition in client.positions:
            end = self.stable_end(partition) if client.is_committed else len(self.logs[partition])
            stop = min(end, client.positions[partition] + self.random.randrange(5))
            for offset in range(client.positions[partition], stop):
                entry = self.logs[partition][offset]
                if entry is not None and self.is_visible(entry, client):
                    records.append(Read(partition, offset, entry.value))
            client.positions[partition] = max(stop, client.positions[partition])
        positions = dict(client.positions) if self.random.random() < 0.5 else {}
        poll = Poll(
            **self.times(process), records=tuple(records), is_committed=client.is_committed,
            positions=positions,
        )  # fmt: skip
        self.history.append(poll)
        if client.transaction is not None:
            self.process(process, records)

    def process(self, process: str, records: list[Read]) -> None:
        """One output for each input, and the offsets in the same transaction."""
        client = self.clients[process]
        for read in records:
            if not read.partition.startswith("in"):
                continue
            value = self.name("o")
            offset = self.append("out-0", value, client.transaction)
            self.history.append(
                Send(
                    **self.times(process),
                    partition="out-0",
                    value=value,
                    outcome=Outcome.OK,
                    offset=offset,
                    transaction=client.transaction,
                )
            )

    def begin(self, process: str) -> None:
        client = self.clients[process]
        if client.transaction is None:
            client.transaction = self.name("t")
            self.fates[client.transaction] = None
            self.history.append(Begin(**self.times(process), transaction=client.transaction))

    def end(self, process: str) -> None:
        client = self.clients[process]
        name = client.transaction
        if name is None:
            self.commit(process)
            return
        is_commit = self.random.random() < 0.7
        if is_commit and self.random.random() < 0.5:
            client.offsets = dict(client.positions)
            self.history.append(
                CommitOffsets(
                    **self.times(process),
                    group=GROUP,
                    offsets=client.offsets,
                    outcome=Outcome.OK,
                    transaction=name,
                )
            )
        outcome, happens = self.fortune()
        times = self.times(process, outcome)
        self.history.append(End(**times, transaction=name, is_commit=is_commit, outcome=outcome))
        self.decide(client, is_commit and happens)

    def commit(self, process: str) -> None:
        client = self.clients[process]
        outcome, happens = self.fortune()
        commit = CommitOffsets(
            **self.times(process, outcome), group=GROUP, offsets=dict(client.positions),
            outcome=outcome,
        )  # fmt: skip
        self.history.append(commit)
        if happens:
            self.committed |= client.positions

    def crash(self, process: str) -> None:
        client = self.clients[process]
        self.history.append(Crash(**self.times(process)))
        if client.transaction is not None:
            self.decide(client, False)
        self.clients[process] = Client(is_committed=client.is_committed)

    def assign(self, process: str) -> None:
        """Takes partitions where the group stands; an open transaction elsewhere is waited for."""
        client = self.clients[process]
        if client.transaction is not None:
            return
        names = self.random.sample(PARTITIONS, 2)
        client.positions = {name: self.committed.get(name, 0) for name in names}
        self.history.append(
            Assign(**self.times(process), positions=dict(client.positions), group=GROUP)
        )

    def ask_end(self, process: str) -> None:
        name = self.a_partition()
        end = LogEnd(**self.times(process), partition=name, offset=len(self.logs[name]))
        self.history.append(end)

    # What the log does

    def append(self, partition: str, value: str, transaction: str | None) -> int:
        self.logs[partition].append(Entry(value, transaction))
        return len(self.logs[partition]) - 1

    def decide(self, client: Client, is_commit: bool) -> None:
        name, client.transaction = client.transaction, None
        assert name is not None
        self.fates[name] = is_commit
        for log in self.logs.values():
            if any(entry is not None and entry.transaction == name for entry in log):
                log.append(None)
        if is_commit:
            self.committed |= client.offsets
        client.offsets = {}

    def stable_end(self, partition: str) -> int:
        log = self.logs[partition]
        for offset, entry in enumerate(log):
            name = None if entry is None else entry.transaction
            if name is not None and self.fates[name] is None:
                return offset
        return len(log)

    def is_visible(self, entry: Entry, client: Client) -> bool:
        name = entry.transaction
        return name is None or not client.is_committed or self.fates[name] is True

    # Chance and time

    def fortune(self) -> tuple[Outcome, bool]:
        """What a client is told, and whether it happens."""
        outcome = self.random.choices(list(Outcome), weights=[6, 1, 2])[0]
        happens = outcome is Outcome.OK or (
            outcome is Outcome.UNKNOWN and self.random.random() < 0.5
        )
        return outcome, happens

    def a_partition(self) -> str:
        return self.random.choice(PARTITIONS)

    def name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def times(self, process: str, outcome: Outcome = Outcome.OK) -> dict[str, object]:
        self.now += 2
        ended = None if outcome is Outcome.UNKNOWN else self.now + 1
        return {"process": process, "began": self.now, "ended": ended}


@pytest.mark.slow
@given(seed=st.integers(0, 1 << 32), steps=st.integers(1, 150))
def test_nothing_is_wrong_with_what_clients_of_a_right_log_saw(seed: int, steps: int) -> None:
    assert check(RightLog(seed).run(steps)) == []


@pytest.mark.slow
@given(seed=st.integers(0, 1 << 32))
def test_a_history_may_be_reported_in_any_order(seed: int) -> None:
    history = RightLog(seed).run(60)
    random.Random(seed).shuffle(history)
    assert check(history) == []


def read_all_again(log: RightLog, without: str | None = None) -> list[Operation]:
    """One more consumer, of all there is but one value, and what it saw."""
    reads = tuple(
        Read(name, offset, entry.value)
        for name, entries in log.logs.items()
        for offset, entry in enumerate(entries)
        if entry is not None and entry.value != without
    )
    ends = {name: len(entries) for name, entries in log.logs.items()}
    begins: dict[str, int | None] = dict.fromkeys(PARTITIONS, 0)
    return [
        Assign(**log.times("last"), positions=begins),
        Poll(**log.times("last"), records=reads, positions=ends),
    ]


@pytest.mark.slow
@given(seed=st.integers(0, 1 << 32))
def test_an_acknowledged_record_that_is_gone_is_always_noticed(seed: int) -> None:
    log = RightLog(seed)
    history = log.run(80)
    known = [one for one in history if isinstance(one, Send) and one.outcome is Outcome.OK]
    for send in known[:3]:
        findings = check([*history, *read_all_again(log, without=send.value)])
        assert findings
        assert {one.kind for one in findings} <= {FindingKind.LOST_WRITE, FindingKind.POLL_SKIP}


@pytest.mark.slow
@given(seed=st.integers(0, 1 << 32))
def test_a_committed_transaction_reported_as_aborted_is_noticed_if_seen(seed: int) -> None:
    log = RightLog(seed)
    history = log.run(80)
    for end in [one for one in history if isinstance(one, End) and log.fates[one.transaction]]:
        told = replace(end, is_commit=False, outcome=Outcome.OK)
        sends = {
            one.value
            for one in history
            if isinstance(one, Send) and one.transaction == end.transaction
        }
        is_seen = any(
            read.value in sends
            for one in history
            if isinstance(one, Poll) and one.is_committed
            for read in one.records
        )
        findings = check([told if one is end else one for one in history])
        kinds = {one.kind for one in findings}
        assert (FindingKind.ABORTED_READ in kinds) == is_seen


@pytest.mark.slow
def test_a_long_history_is_checked_in_time() -> None:
    assert check(RightLog(1).run(5_000)) == []
