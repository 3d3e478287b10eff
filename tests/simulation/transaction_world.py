"""Producers with transactional ids, old lives of them that do not know that they are over, a group,
and readers, on a broker that dies: all from one seed, judged by what they were told.

A call may be lost before it arrives or on its way back, arrive twice, or arrive again much later.
Another thing that happens is a method in `TransactionWorld.deeds`, with a weight.
"""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.timestamps import Timestamps
from ottla.broker.broker import Broker
from ottla.broker.transactions.markers import FIRST_EPOCH_BUMP_VERSION
from ottla.broker.waiting.fetch_queries import FetchQuery, PartitionQuery
from ottla.coordinator.offsets.commits import CommitRequest
from ottla.coordinator.offsets.committed_offsets import NewOffset
from ottla.coordinator.requests import MemberClaim
from ottla.coordinator.transaction.requests import InitRequest, ProducerClaim
from ottla.metadata.deciding.topics import NewTopic
from ottla.record.batch import RecordBatch, iter_batches
from ottla.record.builder import RecordBatchBuilder
from ottla.record.record import read_records
from ottla.storage.log.offsets import Isolation
from ottla.storage.log.reader import FetchData
from ottla.testing import CrashMode, FakeFileSystem
from ottla.testing.history import (
    Assign,
    Begin,
    CommitOffsets,
    End,
    LogEnd,
    Operation,
    Outcome,
    Poll,
    Read,
    Send,
)
from tests.support.brokers import NOW_MS, disk, open_broker

SETTINGS = {
    "transaction_state_log_num_partitions": "2",
    "offsets_topic_num_partitions": "1",
    "log_index_size_max_bytes": "120",
    "log_segment_bytes": "1500",
    "producer_id_expiration_ms": "3600000",
    "producer_id_expiration_check_interval_ms": "1000",
    "transactional_id_expiration_ms": "3600000",
    "transaction_remove_expired_transaction_cleanup_interval_ms": "1000",
}
PLACES = (("a", 0), ("b", 0))
SLOTS = ("till", "shop")
GROUP = "g"
TIMEOUT_MS = 10_000
TWO_DAYS_MS = 48 * 3_600_000
STEPS = 600
AGAIN = (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

Answer = TypeVar("Answer")


@dataclass(slots=True)
class Life:
    """One process that holds a transactional id, or thinks so."""

    name: str
    slot: str
    version: int
    """Of transactions: from `FIRST_EPOCH_BUMP_VERSION` on each has an epoch of its own (KIP-890),
    and a call of an earlier one that comes late does nothing. Before that it might."""
    claim: ProducerClaim | None = None
    transaction: str | None = None
    added: set[tuple[str, int]] = field(default_factory=set)
    sequences: Counter[tuple[str, int]] = field(default_factory=Counter)
    count: int = 0
    must_abort: bool = False
    """A send was not answered: whether it is in the log is not known."""


class TransactionWorld:
    """`run` does it all and returns the history; `counts` tells what happened."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.history: list[Operation] = []
        self.elapsed_ms = 0
        self.fast_ms = 0
        """What the wall clock has been set on, or back if negative."""
        self._ticks = 0
        self._late: list[Callable[[], object]] = []
        self.file_system: FakeFileSystem = disk("/d")
        self.broker = self._open()
        for topic, _ in PLACES:
            self.broker.admin.create_topic(NewTopic(name=topic, partition_count=1))
        self.lives = [self._new_life(slot) for slot in SLOTS]
        self.deeds: list[tuple[Callable[[], None], int]] = [
            (self.client_acts, 60),
            (self.reader_reads, 10),
            (self.group_goes_on, 5),
            (self.time_passes, 12),
            (self.late_call_arrives, 4),
            (self.life_ends, 3),
            (self.broker_dies, 2),
            (self.clock_is_set, 2),
        ]

    def run(self, steps: int = STEPS) -> list[Operation]:
        deeds, weights = zip(*self.deeds, strict=True)
        for _ in range(steps):
            self.chance.choices(deeds, weights)[0]()
        self.settle()
        return self.history

    def settle(self) -> None:
        """Time enough for all that is open to be aborted, and a last look at everything."""
        for _ in range(5):
            self._pass_time(TIMEOUT_MS)
        for where in PLACES:
            log = self.broker.topics.partition(*where).log
            assert log.last_stable_offset == log.log_end_offset, "something hangs"
            self._tell(LogEnd, "last", partition=text(where), offset=log.log_end_offset)
        self.reader_reads()

    # What happens

    def client_acts(self) -> None:
        life = self.chance.choice(self.lives)
        if life.claim is None:
            self._init(life)
        elif life.transaction is None:
            life.count += 1
            life.transaction = f"{life.name}-t{life.count}"
            life.added, life.must_abort = set(), False
            self._tell(Begin, life.name, transaction=life.transaction)
        else:
            act = self.chance.choices((self._send, self._commit_offsets, self._end), (6, 1, 2))[0]
            act(life)

    def reader_reads(self) -> None:
        """From the start: some as read_committed, some not."""
        isolation = self.chance.choice((Isolation.LAST_STABLE, Isolation.HIGH_WATERMARK))
        process = f"reader{self._ticks}"
        self._tell(Assign, process, positions={text(one): 0 for one in PLACES})
        reads: list[Read] = []
        positions = {}
        for where in PLACES:
            found, positions[text(where)] = self._read(where, isolation)
            reads += found
        self._tell(
            Poll,
            process,
            records=tuple(reads),
            is_committed=isolation is Isolation.LAST_STABLE,
            positions=positions,
        )

    def group_goes_on(self) -> None:
        found = self.broker.groups.machines(self._at())[0].fetch_offsets(
            MemberClaim(group_id=GROUP), list(PLACES)
        )
        positions = {
            text(where): one.committed.offset
            for where, one in found.items()
            if one.committed is not None and not one.is_unstable
        }
        self._tell(Assign, "member", positions=positions, group=GROUP)

    def time_passes(self) -> None:
        self._pass_time(self.chance.choice((10, 500, 3000, TIMEOUT_MS)))

    def late_call_arrives(self) -> None:
        if self._late:
            self.counts["late"] += 1
            self._late.pop(self.chance.randrange(len(self._late)))()
            self.broker.appends.write_out()

    def life_ends(self) -> None:
        """Another one takes the slot; the old one may not know it, and continue for a while."""
        self.counts["lives"] += 1
        old = self.chance.choice(self.lives)
        self.lives.append(self._new_life(old.slot))
        if self.chance.random() < 0.5 or len(self.lives) > 4:
            self.lives.remove(old)

    def broker_dies(self) -> None:
        self.counts["kills"] += 1
        self.file_system = self.file_system.crash(CrashMode.KEEP)
        self.broker = self._open()

    def clock_is_set(self) -> None:
        self.counts["clock set"] += 1
        self.fast_ms = self.chance.choice((-1, 0, 1)) * self.chance.randrange(TWO_DAYS_MS)

    # What clients do

    def _init(self, life: Life) -> None:
        request = InitRequest(transactional_id=life.slot, timeout_ms=TIMEOUT_MS)
        answer = self._call(lambda: self.broker.transactions.init_producer(request, self._at()))
        if answer is not None and answer.error is ErrorCode.NONE:
            life.claim = ProducerClaim(
                transactional_id=life.slot, producer_id=answer.producer_id, epoch=answer.epoch
            )
            life.sequences.clear()
        elif answer is not None and answer.error not in AGAIN:
            raise AssertionError(f"a new producer is refused: {answer.error}")

    def _send(self, life: Life) -> None:
        where, claim = self.chance.choice(PLACES), life.claim
        assert claim is not None
        if life.must_abort:
            return
        if where not in life.added:
            added = self._add(life, claim, where)
            if added is None or added.error is not ErrorCode.NONE:
                self._refused(life, None if added is None else added.error)
                return
            life.added.add(where)
        value = f"{life.name}:{self._ticks}"
        begun = self._begun(life.name)
        told: dict[str, Any] = {
            **begun, "partition": text(where), "value": value, "transaction": life.transaction
        }  # fmt: skip
        sequence = life.sequences[where]
        for _ in range(3):
            try:
                info = self._call(
                    lambda: self._append(claim, where, value, sequence), may_be_late=True
                )
            except ApiError as error:
                self._tell_done(Send, told)
                self._refused(life, error.code)
                return
            if info is not None:
                life.sequences[where] += 1
                self._tell_done(Send, told, outcome=Outcome.OK, offset=info.first_offset)
                return
        self._tell_done(Send, told)
        life.must_abort = True

    def _commit_offsets(self, life: Life) -> None:
        claim, offset = life.claim, self.chance.randrange(1000)
        assert claim is not None
        if life.must_abort:
            return
        begun = self._begun(life.name)
        where = self.broker.transactions.offsets_partition(GROUP)
        added = self._add(life, claim, where)
        if added is None or added.error is not ErrorCode.NONE:
            self._refused(life, None if added is None else added.error)
            return
        life.added.add(where)
        request = CommitRequest(
            claim=MemberClaim(group_id=GROUP),
            offsets={one: NewOffset(offset=offset) for one in PLACES},
            producer=(claim.producer_id, claim.epoch),
        )
        answer = self._call(
            lambda: self.broker.groups.carry_out(
                self.broker.groups.machines(self._at())[0].commit(request, self._at()), self._at()
            )
        )
        is_ok = answer is not None and set(answer.partitions.values()) == {ErrorCode.NONE}
        self._tell_done(
            CommitOffsets,
            {**begun, "group": GROUP, "offsets": {text(one): offset for one in PLACES}},
            transaction=life.transaction,
            outcome=Outcome.OK if is_ok else Outcome.UNKNOWN,
        )
        life.must_abort = life.must_abort or not is_ok

    def _end(self, life: Life) -> None:
        claim = life.claim
        assert claim is not None
        is_commit = not life.must_abort and self.chance.random() < 0.7
        if not life.added:
            life.transaction = None
            return
        told: dict[str, Any] = {
            **self._begun(life.name), "transaction": life.transaction, "is_commit": is_commit
        }  # fmt: skip
        for _ in range(4):
            answer = self._call(
                lambda: self.broker.transactions.end(
                    claim, self._at(), is_commit=is_commit, client_version=life.version
                ),
                may_be_late=life.version > 0,
            )
            if answer is not None and answer.error is ErrorCode.NONE:
                self.counts["commits" if is_commit else "aborts"] += 1
                self._tell_done(End, told, outcome=Outcome.OK)
                life.transaction = None
                if life.version:
                    life.claim = replace(claim, producer_id=answer.producer_id, epoch=answer.epoch)
                    life.sequences.clear()
                return
            if answer is not None and answer.error not in AGAIN:
                break
        self._tell_done(End, told)
        self._over(life)

    def _add(self, life: Life, claim: ProducerClaim, where: tuple[str, int]) -> Any:
        return self._call(
            lambda: self.broker.transactions.add_partitions(
                claim, [where], self._at(), client_version=life.version
            ),
            may_be_late=life.version > 0,
        )

    def _refused(self, life: Life, error: ErrorCode | None) -> None:
        if error is not None and error not in AGAIN:
            self.counts["refused"] += 1
            self._over(life)

    def _over(self, life: Life) -> None:
        """It begins again as another process would, or leaves that to the one that has its id."""
        self.lives.remove(life)
        if not any(one.slot == life.slot for one in self.lives):
            self.lives.append(self._new_life(life.slot))

    # What they stand on

    def _append(
        self, claim: ProducerClaim, where: tuple[str, int], value: str, sequence: int
    ) -> Any:
        partition = self.broker.topics.partition(*where)
        admission = self.broker.transactions.admission(
            claim, [partition], self._at(), can_add=False
        )
        refusal = admission.refusal(partition, claim)
        if refusal is not ErrorCode.NONE:
            raise ApiError(refusal)
        builder = RecordBatchBuilder(
            producer_id=claim.producer_id,
            producer_epoch=claim.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        builder.append(b"k", value.encode(), self._at().now_ms)
        records = bytearray(builder.build())
        return self.broker.appends.append(partition, records, now_ms=self._at().now_ms)

    def _call(self, deed: Callable[[], Answer], *, may_be_late: bool = False) -> Answer | None:
        """The answer, or `None` where nothing comes back."""
        fate = self.chance.choices(
            ("fine", "lost", "unanswered", "twice", "late"), (88, 3, 4, 3, 2)
        )[0]
        if fate != "fine":
            self.counts[fate] += 1
        if fate == "lost":
            return None
        if fate == "late" and may_be_late:
            self._late.append(lambda: _despite_errors(deed))
            return None
        answer = self._answer(deed)
        if fate == "twice":
            _despite_errors(lambda: self._answer(deed))
        return None if fate in ("unanswered", "late") else answer

    def _answer(self, deed: Callable[[], Answer]) -> Answer:
        try:
            return deed()
        finally:
            self.broker.appends.write_out()

    def _read(self, where: tuple[str, int], isolation: Isolation) -> tuple[list[Read], int]:
        wanted = PartitionQuery(topic=where[0], index=where[1], offset=0, max_size=1 << 20)
        reads: list[Read] = []
        log = self.broker.topics.partition(*where).log
        is_committed = isolation is Isolation.LAST_STABLE
        end = log.last_stable_offset if is_committed else log.log_end_offset
        offset, skipping = 0, set[int]()
        while offset < end:
            wanted = PartitionQuery(topic=where[0], index=where[1], offset=offset, max_size=1 << 20)
            query = FetchQuery([wanted], max_size=1 << 20, isolation=isolation)
            (data,) = self.broker.fetches.fetch(query).partitions
            assert isinstance(data, FetchData)
            aborted = {(one.producer_id, one.first_offset) for one in data.aborted or ()}
            for batch in iter_batches(data.records.read() if data.records else b""):
                assert isinstance(batch, RecordBatch)
                offset = batch.next_offset
                if (batch.producer_id, batch.base_offset) in aborted:
                    skipping.add(batch.producer_id)
                if batch.is_control:
                    skipping.discard(batch.producer_id)
                elif batch.producer_id not in skipping:
                    for one in read_records(batch):
                        reads.append(Read(text(where), one.offset, (one.value or b"").decode()))
        return reads, end

    def _open(self) -> Broker:
        broker = open_broker(self.file_system, "/d", **SETTINGS)
        broker.transactions.machines(self._at())[0]
        broker.appends.write_out()
        return broker

    def _new_life(self, slot: str) -> Life:
        self._ticks += 1
        version = self.chance.choice((0, FIRST_EPOCH_BUMP_VERSION))
        return Life(f"{slot}.{self._ticks}", slot, version)

    def _pass_time(self, ms: int) -> None:
        self.elapsed_ms += ms
        self.broker.scheduler.run_due(self._at())
        self.broker.appends.write_out()

    def _at(self) -> Timestamps:
        now_ms = NOW_MS + self.elapsed_ms + self.fast_ms
        return Timestamps(now_ms=now_ms, monotonic_ms=float(self.elapsed_ms))

    def _begun(self, process: str) -> dict[str, Any]:
        self._ticks += 1
        return {"process": process, "began": self._ticks}

    def _tell(self, kind: type[Operation], process: str, **more: Any) -> None:
        self._tell_done(kind, self._begun(process), **more)

    def _tell_done(self, kind: type[Operation], told: dict[str, Any], **more: Any) -> None:
        self._ticks += 1
        is_open = more.get("outcome") is Outcome.UNKNOWN
        ended = None if is_open else self._ticks
        self.history.append(kind(**{**told, **more}, ended=ended))


def text(where: tuple[str, int]) -> str:
    return f"{where[0]}-{where[1]}"


def _despite_errors(deed: Callable[[], object]) -> None:
    try:
        deed()
    except ApiError:
        return
