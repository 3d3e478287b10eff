"""Logs to compact in tests: random histories of keys, tombstones and transactions, and passes."""

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from ottla.base.files import FileSystem
from ottla.codec.compression import Compression
from ottla.record.batch import iter_batches
from ottla.record.builder import RecordBatchBuilder
from ottla.record.control import EndTransactionMarker, build_end_transaction_marker
from ottla.record.record import read_records
from ottla.storage.compaction import compiled_key_filter
from ottla.storage.compaction.cleanable import cleanable, log_to_clean
from ottla.storage.compaction.compaction import (
    CompactionPlan,
    CompactionResult,
    Surroundings,
    compact,
)
from ottla.storage.compaction.key_filter import KeyFilter, PlainKeyFilter
from ottla.storage.compaction.planning import MapMemory, plan_compaction
from ottla.storage.compaction.replacement import replace_segments
from ottla.storage.compaction.vector_key_filter import VectorKeyFilter
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.producer_state import AppendOrigin
from tests.support.logs import NOW_MS, SMALL, open_log

COMPACTED = replace(
    SMALL,
    cleanup_policy=("compact",),
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=1000,
    segment_index_bytes=1 << 12,
)
KEY_FILTERS: list[Any] = [PlainKeyFilter, VectorKeyFilter]
if compiled_key_filter.IS_COMPILED:
    KEY_FILTERS.append(compiled_key_filter.CompiledKeyFilter)

MEMORY = MapMemory(size=24 * 1000, load_factor=0.9)

KEYS = st.sampled_from([b"", b"a", b"b", b"seven77", b"eight888", b"nine99999", b"x" * 33])
VALUES = st.none() | st.binary(max_size=20)


@dataclass(frozen=True)
class Write:
    """A batch; `producer` 0 to 2 writes in a transaction, 3 outside of one, `None` is nobody."""

    records: tuple[tuple[bytes | None, bytes | None], ...]
    producer: int | None = None
    codec: Compression = Compression.NONE


@dataclass(frozen=True)
class End:
    producer: int
    is_commit: bool


@dataclass(frozen=True)
class Roll:
    pass


Step = Write | End | Roll

RECORDS = st.lists(st.tuples(st.none() | KEYS, VALUES), min_size=1, max_size=6).map(tuple)
STEPS = st.lists(
    st.one_of(
        st.builds(Write, RECORDS, st.none() | st.integers(0, 3), st.sampled_from(Compression)),
        st.builds(Write, RECORDS, st.integers(0, 2)),
        st.builds(End, st.integers(0, 2), st.booleans()),
        st.just(Roll()),
    ),
    max_size=40,
)


class Keeper:
    """Writes steps to a log, and knows what a reader of committed records is to find.

    The log is compacted from `finish` on: until then it takes records without a key as well.
    """

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.latest: dict[bytes, tuple[int, bytes | None]] = {}
        """Key -> offset and value of its last committed record."""
        self.aborted: set[int] = set()
        self._open: dict[int, list[tuple[int, bytes | None, bytes | None]]] = {}
        self._sequences: dict[int, int] = {}

    def carry_out(self, step: Step, now_ms: int = NOW_MS) -> None:
        match step:
            case Write():
                self._write(step, now_ms)
            case End(producer, is_commit) if producer in self._open:
                self._end(producer, is_commit, now_ms)
            case Roll():
                self.log.writer.roll(now_ms)
        self.log.writer.write_out()

    def finish(self, now_ms: int = NOW_MS) -> None:
        """Ends all transactions, and the active segment."""
        for producer in list(self._open):
            self.carry_out(End(producer, True), now_ms)
        self.log.writer.roll(now_ms)
        self.log.writer.write_out()
        self.log.maintenance.reconfigure(COMPACTED)

    def _write(self, step: Write, now_ms: int) -> None:
        producer = step.producer
        base_offset = self.log.log_end_offset
        has_producer = producer is not None
        sequence = self._sequences.get(producer, 0) if producer is not None else -1
        builder = RecordBatchBuilder(
            compression=step.codec,
            producer_id=producer if producer is not None else -1,
            producer_epoch=0 if has_producer else -1,
            base_sequence=sequence,
            is_transactional=producer is not None and producer < 3,
        )
        written = []
        for number, (key, value) in enumerate(step.records):
            builder.append(key, value, now_ms + number)
            written.append((base_offset + number, key, value))
        self.log.writer.append_as_leader(
            bytearray(builder.build()),
            leader_epoch=0,
            now_ms=now_ms,
            origin=AppendOrigin.COORDINATOR,
        )
        if producer is not None:
            self._sequences[producer] = sequence + len(step.records)
        if producer is not None and producer < 3:
            self._open.setdefault(producer, []).extend(written)
        else:
            self._commit(written)

    def _commit(self, written: list[tuple[int, bytes | None, bytes | None]]) -> None:
        for offset, key, value in written:
            if key is not None and offset >= self.latest.get(key, (-1, None))[0]:
                self.latest[key] = offset, value

    def _end(self, producer: int, is_commit: bool, now_ms: int) -> None:
        marker = build_end_transaction_marker(
            EndTransactionMarker(is_commit=is_commit, coordinator_epoch=0),
            producer_id=producer,
            producer_epoch=0,
            timestamp_ms=now_ms,
        )
        self.log.writer.append_as_leader(
            bytearray(marker), leader_epoch=0, now_ms=now_ms, origin=AppendOrigin.COORDINATOR
        )
        written = self._open.pop(producer)
        if is_commit:
            self._commit(written)
        else:
            self.aborted.update(offset for offset, _, _ in written)


def stored(log: PartitionLog) -> bytes:
    return b"".join(one.log.read(0, one.log.size) for one in log.segments.values)


def visible(log: PartitionLog, aborted: set[int]) -> dict[bytes, bytes]:
    """What a reader of committed records ends with: the last value of each key that has one."""
    found: dict[bytes, bytes] = {}
    for batch in iter_batches(stored(log)):
        if batch.is_control:
            continue
        for record in read_records(batch):
            if record.key is None or record.offset in aborted:
                continue
            if record.value is None:
                found.pop(record.key, None)
            else:
                found[record.key] = record.value
    return found


def plan(
    log: PartitionLog,
    file_system: FileSystem,
    *,
    cleaned_until: int | None = None,
    now_ms: int = NOW_MS,
    memory: MapMemory = MEMORY,
    damaged: tuple[int, ...] = (),
) -> CompactionPlan | None:
    """The plan of the next pass, if there is anything to compact, once all is flushed."""
    log.writer.flush()
    range_ = cleanable(log_to_clean(log, cleaned_until), log.config, now_ms)
    if range_.end_offset <= log.segments.first.base_offset:
        return None
    return plan_compaction(log, range_, file_system, memory, now_ms=now_ms, damaged=damaged)


def clean(
    log: PartitionLog,
    file_system: FileSystem,
    *,
    now_ms: int = NOW_MS,
    key_filter: KeyFilter | None = None,
    **options: Any,
) -> CompactionResult | None:
    """One pass, from the plan to the segments in place; `options` are those of `plan`."""
    made = plan(log, file_system, now_ms=now_ms, **options)
    if made is None:
        return None
    memory: MapMemory = options.get("memory", MEMORY)
    key_filter = key_filter or PlainKeyFilter(memory.size, memory.load_factor)
    result = compact(made, key_filter, Surroundings(file_system=file_system))
    for retired in replace_segments(log, result.groups, file_system, now_ms):
        retired.remove()
    return result


def keeper_of(file_system: FileSystem) -> Keeper:
    return Keeper(open_log(file_system, replace(COMPACTED, cleanup_policy=("delete",))))
