"""The state that a stream's sink stores in the cluster, and its use for a batch that is repeated.

Format page: docs/format/sink-state.md. Before the driver ends the first transaction of a batch it
writes down which ones it is about to commit (`Phase.COMMITTING`), and after the last one that it
has (`Phase.COMMITTED`). Each transaction carries a marker that becomes visible with it. A crash can
leave a batch half committed: the next writer commits the rest of what is written down, and what
a broker has aborted meanwhile is written again. Kafka has no counterpart before KIP-939.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

from ottla.base.errors import UserError
from ottla.base.values import dataclass
from ottla.client.groups import Committed

VERSION = 1
MAX_METADATA_SIZE = 4000
"""Brokers take 4096 bytes beside an offset by default (`offset.metadata.max.bytes`)."""


class Phase(Enum):
    COMMITTING = "committing"
    COMMITTED = "committed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One task's transaction: whose it is, and how much lies in it (`size`: keys and values)."""

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
    """The newest batch that a sink is sure of. `topic` is where this is written."""

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
    """What a task has done: written (`entry`), or only counted since there was nothing to do."""

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
    """As offsets of the topic's first partitions; raises `UserError` when they are too few."""
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
            f"batch {state.batch}: {len(rows)} tasks are too many to note beside the offsets of "
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
    """The transactions of a batch that must be committed, those that are included.

    `committed` are the tasks of which the state's transaction was. Rows need to be divided among
    tasks as they were only when some were committed and some were not; raises `UserError` then.
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
            f"{numbers} before they could be committed, and the rows come divided in another way "
            f"than before; run the query with as many tasks as then"
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
        if fields["version"] != VERSION:
            raise UserError(
                f"the sink's state is of version {fields['version']}, which this Ottla does not "
                f"know; use a newer one"
            )
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(
            f"the sink's group has an offset of {offset.topic}-{offset.partition} that is not its "
            f"own: {offset.metadata!r}; only the sink may commit to it"
        ) from error
    return fields


def _named(row: list[int]) -> dict[str, int]:
    return dict(zip(("task", "producer_id", "epoch", "row_count", "size"), row, strict=True))
