"""The state that a stream's sink stores in the cluster, and its use for a batch that is repeated.

Format page: docs/format/sink-state.md. Before the driver ends the first transaction of a batch, it
records the transactions that it will commit (`Phase.COMMITTING`), and after the last one that all
are committed (`Phase.COMMITTED`). Each transaction has a marker that becomes visible with it. A
crash can leave a batch half committed: the next writer commits the rest of the recorded
transactions, and writes again what a broker has aborted. Kafka has no counterpart before KIP-939.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

from ottla.base.errors import UserError
from ottla.base.json_files import UnknownVersionError, check_version
from ottla.base.values import dataclass
from ottla.client.administration.group_offsets import Committed

VERSION = 1
MAX_METADATA_SIZE = 4000
"""By default brokers accept 4096 bytes with an offset (`offset.metadata.max.bytes`)."""


class Phase(Enum):
    COMMITTING = "committing"
    COMMITTED = "committed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One task's transaction: its producer, and the size of its records (keys and values)."""

    task: int
    producer_id: int
    epoch: int
    row_count: int
    size: int

    @property
    def measure(self) -> tuple[int, int]:
        return self.row_count, self.size


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkState:
    """The newest recorded batch of a sink. `topic` is the topic with whose offsets it is stored."""

    batch: int
    phase: Phase
    topic: str
    entries: tuple[Entry, ...] = ()

    def has(self, batch: int) -> bool:
        """Whether a batch is committed as a whole."""
        return batch < self.batch or (batch == self.batch and self.phase is Phase.COMMITTED)

    def is_halfway(self, batch: int) -> bool:
        return batch == self.batch and self.phase is Phase.COMMITTING


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """The result of a task, which wrote rows (`entry`), or only counted rows written before."""

    task: int
    row_count: int
    size: int
    topics: tuple[str, ...] = ()
    entry: Entry | None = None

    def with_entry(self, entry: Entry) -> "TaskReport":
        return replace(self, entry=entry)

    @property
    def measure(self) -> tuple[int, int]:
        return self.row_count, self.size


def transactional_id(sink: str, task: int) -> str:
    return f"{sink}-{task}"


def marker_group(sink: str, task: int) -> str:
    """The group whose offset is a task's marker."""
    return f"{sink}-task-{task}"


def encode_state(sink: str, state: SinkState, partition_count: int) -> list[Committed]:
    """As offsets of the topic's first partitions; raises `UserError` if there are too few."""
    rows: list[list[int]] = [
        [one.task, one.producer_id, one.epoch, one.row_count, one.size] for one in state.entries
    ]
    chunks: list[list[list[int]]] = [[]]
    for row in rows:
        if len(_text(state, [*chunks[-1], row], 9999)) > MAX_METADATA_SIZE:
            chunks.append([])
        chunks[-1].append(row)
    if len(chunks) > partition_count:
        raise UserError(
            f"batch {state.batch}: {len(rows)} tasks are too many to store with the offsets of "
            f"{partition_count} partitions of {state.topic}; coalesce the rows to fewer tasks"
        )
    return [
        Committed(
            group=sink,
            topic=state.topic,
            partition=number,
            offset=state.batch,
            metadata=_text(state, chunk, len(chunks)),
        )
        for number, chunk in enumerate(chunks)
    ]


def decode_state(offsets: Sequence[Committed]) -> SinkState | None:
    """The newest state; raises `UserError` for offsets that are not a sink's."""
    found = [(one, _parsed(one)) for one in offsets]
    if not found:
        return None
    batch = max(one.offset for one, _ in found)
    newest = [(one, fields) for one, fields in found if one.offset == batch]
    for one, fields in newest:
        if fields["phase"] == Phase.COMMITTED.value:
            return SinkState(batch=batch, phase=Phase.COMMITTED, topic=one.topic)
    topic, count = next((one.topic, fields["parts"]) for one, fields in newest if not one.partition)
    parts = {one.partition: fields for one, fields in newest if one.topic == topic}
    entries = [Entry(**_named(row)) for number in range(count) for row in parts[number]["tasks"]]
    return SinkState(batch=batch, phase=Phase.COMMITTING, topic=topic, entries=tuple(entries))


def marker(sink: str, batch: int, topic: str, entry: Entry) -> Committed:
    """The offset that a task commits in its transaction."""
    text = json.dumps({"producer": entry.producer_id, "epoch": entry.epoch})
    return Committed(
        group=marker_group(sink, entry.task),
        topic=topic,
        partition=0,
        offset=batch,
        metadata=text,
    )


def is_marked(offsets: Sequence[Committed], batch: int, entry: Entry) -> bool:
    """Whether the transaction of an entry has committed, by the offsets of its task's group."""
    wanted = {"producer": entry.producer_id, "epoch": entry.epoch}
    return any(one.offset == batch and json.loads(one.metadata) == wanted for one in offsets)


def settle(
    state: SinkState | None, committed: Collection[int], reports: Sequence[TaskReport]
) -> list[Entry]:
    """Returns a batch's transactions that must be committed, including the committed ones.

    `committed` are the tasks whose transaction in `state` was committed. If only some were, the
    rows must be divided among the tasks as before; raises `UserError` if they are not.
    """
    written = [one.entry for one in reports if one.entry is not None]
    if state is None or not committed:
        return written
    lost = {one.task for one in state.entries}.difference(committed)
    if not lost:
        return list(state.entries)
    measures = {one.task: one.measure for one in reports if one.row_count}
    if measures != {one.task: one.measure for one in state.entries}:
        numbers = ", ".join(map(str, sorted(lost)))
        raise UserError(
            f"batch {state.batch} is half written: the broker aborted the transactions of tasks "
            f"{numbers} before they could be committed, and the rows are now divided differently "
            f"among the tasks; run the query with as many tasks as before"
        )
    return [one for one in state.entries if one.task not in lost] + [
        one for one in written if one.task in lost
    ]


def _text(state: SinkState, tasks: list[list[int]], parts: int) -> str:
    fields: dict[str, Any] = {"version": VERSION, "phase": state.phase.value}
    if state.phase is Phase.COMMITTING:
        fields |= {"parts": parts, "tasks": tasks}
    return json.dumps(fields, separators=(",", ":"))


def _parsed(offset: Committed) -> dict[str, Any]:
    try:
        fields: dict[str, Any] = json.loads(offset.metadata)
        check_version(fields["version"], VERSION)
    except UnknownVersionError as error:
        raise UserError(f"the sink's state: {error}") from error
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(
            f"the sink's group has an offset of {offset.topic}-{offset.partition} that is not its "
            f"own: {offset.metadata!r}; only the sink may commit to it"
        ) from error
    return fields


def _named(row: list[int]) -> dict[str, int]:
    return dict(zip(("task", "producer_id", "epoch", "row_count", "size"), row, strict=True))
