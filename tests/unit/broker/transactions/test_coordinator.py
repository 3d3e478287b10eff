"""The runner of the machine of transactions over a broker: what is decided is carried out."""

import errno
from collections.abc import Iterator
from itertools import product

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import StorageError
from ottla.base.files import FileSystem
from ottla.base.partitions import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.broker.broker import Broker
from ottla.broker.membership.marker_requests import Marker
from ottla.broker.transactions.coordinator import ENDED_AT_ONCE
from ottla.broker.transactions.marker_sender import RETRY_MS
from ottla.broker.waiting.fetch_queries import FetchQuery, PartitionQuery
from ottla.coordinator.offsets.commits import CommitRequest
from ottla.coordinator.offsets.committed_offsets import FetchedOffset, NewOffset
from ottla.coordinator.placement import partition_for
from ottla.coordinator.requests import MemberClaim
from ottla.coordinator.transaction.requests import InitRequest, ProducerAnswer, ProducerClaim
from ottla.metadata.deciding.topics import NewTopic
from ottla.record.batch import RecordBatch, iter_batches
from ottla.record.builder import RecordBatchBuilder
from ottla.record.record import read_records
from ottla.storage.log.offsets import Isolation
from ottla.storage.log.reader import FetchData
from ottla.testing import CrashMode, FakeFileSystem
from ottla.testing.faults import Effect, FaultPlan, FaultyFileSystem, SimulatedCrash
from ottla.testing.recording import IoCall, IoKind, RecordingFileSystem
from tests.support.brokers import NOW_MS, at, disk, open_broker

SETTINGS = {
    "transaction_state_log_num_partitions": "2",
    "offsets_topic_num_partitions": "1",
    "log_index_size_max_bytes": "120",
}
FLUSHED = {"log_flush_interval_messages": "1"}
A, B = ("a", 0), ("b", 0)
OFFSETS = (CONSUMER_OFFSETS, 0)


def opened(file_system: FileSystem, *paths: str, **settings: str) -> Broker:
    broker = open_broker(file_system, *paths, **SETTINGS, **settings)
    broker.transactions.load(at(0))
    broker.appends.write_out()
    return broker


def with_topics(file_system: FileSystem, *paths: str, **settings: str) -> Broker:
    broker = opened(file_system, *paths, **settings)
    for name in ("a", "b"):
        broker.admin.create_topic(NewTopic(name=name, partition_count=1))
    return broker


@pytest.fixture
def file_system() -> FakeFileSystem:
    return disk("/d")


@pytest.fixture
def broker(file_system: FakeFileSystem) -> Broker:
    return with_topics(file_system)


def init(broker: Broker, timeout_ms: int = 60_000) -> ProducerAnswer:
    request = InitRequest(transactional_id="tx", timeout_ms=timeout_ms)
    answer = broker.transactions.init_producer(request, at(0))
    broker.appends.write_out()
    return answer


def started(broker: Broker, timeout_ms: int = 60_000) -> ProducerClaim:
    answer = init(broker, timeout_ms)
    assert answer.error is ErrorCode.NONE
    return ProducerClaim(transactional_id="tx", producer_id=answer.producer_id, epoch=answer.epoch)


def produce(
    broker: Broker, claim: ProducerClaim, where: tuple[str, int], value: bytes, sequence: int = 0
) -> None:
    builder = RecordBatchBuilder(
        producer_id=claim.producer_id,
        producer_epoch=claim.epoch,
        base_sequence=sequence,
        is_transactional=True,
    )
    builder.append(b"k", value, NOW_MS)
    broker.appends.append(
        broker.topics.partition(*where), bytearray(builder.build()), now_ms=NOW_MS
    )
    broker.appends.write_out()


def begin(broker: Broker, claim: ProducerClaim, value: bytes = b"v", sequence: int = 0) -> None:
    """A record in both partitions."""
    assert broker.transactions.add_partitions(claim, [A, B], at(0)).error is ErrorCode.NONE
    for where in (A, B):
        produce(broker, claim, where, value, sequence)


def end(broker: Broker, claim: ProducerClaim, *, is_commit: bool = True) -> ErrorCode:
    answer = broker.transactions.end(claim, at(0), is_commit=is_commit)
    broker.appends.write_out()
    return answer.error


def test_of_many_transactions_that_time_out_a_server_ends_some_in_each_round(
    broker: Broker,
) -> None:
    keys = [f"tx-{number}" for number in range(2 * ENDED_AT_ONCE)]
    for key in keys:
        request = InitRequest(transactional_id=key, timeout_ms=1000)
        answer = broker.transactions.init_producer(request, at(0))
        claim = ProducerClaim(
            transactional_id=key, producer_id=answer.producer_id, epoch=answer.epoch
        )
        broker.transactions.add_partitions(claim, [A], at(0))
        broker.appends.write_out()
    broker.budget.limit(lambda: False, lambda deed: deed())

    def open_ones() -> int:
        machines = broker.transactions.known
        listed = [one for machine in machines for one in machine.list_transactions()]
        return sum(one.state == "Ongoing" for one in listed)

    assert open_ones() == len(keys)
    left = []
    while not left or left[-1]:
        broker.transactions.advance(at(1001))
        broker.appends.write_out()
        left.append(open_ones())
    assert left == [ENDED_AT_ONCE, 0]


def read_committed(broker: Broker, where: tuple[str, int]) -> list[bytes | None]:
    """What a consumer sees that skips what was aborted."""
    wanted = PartitionQuery(topic=where[0], index=where[1], offset=0, max_size=1 << 20)
    query = FetchQuery([wanted], max_size=1 << 20, isolation=Isolation.LAST_STABLE)
    (data,) = broker.fetches.fetch(query).partitions
    assert isinstance(data, FetchData)
    assert data.aborted is not None
    aborted = {(one.producer_id, one.first_offset) for one in data.aborted}
    values: list[bytes | None] = []
    skipping: set[int] = set()
    for batch in iter_batches(data.records.read() if data.records else b""):
        assert isinstance(batch, RecordBatch)
        if (batch.producer_id, batch.base_offset) in aborted:
            skipping.add(batch.producer_id)
        if batch.is_control:
            skipping.discard(batch.producer_id)
        elif batch.producer_id not in skipping:
            values += [record.value for record in read_records(batch)]
    return values


def stable(broker: Broker, where: tuple[str, int]) -> bool:
    log = broker.topics.partition(*where).log
    return log.last_stable_offset == log.log_end_offset


def commit_offset(broker: Broker, claim: ProducerClaim, offset: int) -> None:
    transactions = broker.transactions
    assert transactions.offsets_partition("g") == OFFSETS
    assert transactions.add_partitions(claim, [OFFSETS], at(0)).error is ErrorCode.NONE
    request = CommitRequest(
        claim=MemberClaim(group_id="g"),
        offsets={A: NewOffset(offset=offset)},
        producer=(claim.producer_id, claim.epoch),
    )
    assert broker.groups.carry_out(
        broker.groups.machines(at(0))[0].commit(request, at(0)), at(0)
    ).partitions == {A: ErrorCode.NONE}
    broker.appends.write_out()


def fetched(broker: Broker) -> FetchedOffset:
    return broker.groups.machines(at(0))[0].fetch_offsets(MemberClaim(group_id="g"), [A])[A]


def offset_of(broker: Broker) -> int | None:
    committed = fetched(broker).committed
    return None if committed is None else committed.offset


# The topic


def test_the_topic_of_transactions_is_made_with_the_first_producer(broker: Broker) -> None:
    assert broker.topics.find(TRANSACTION_STATE) is None
    started(broker)
    topic = broker.topics.get(TRANSACTION_STATE)
    assert (topic.is_internal, topic.partition_count) == (True, 2)
    assert topic.overrides == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "1",
        "segment.bytes": "104857600",
        "unclean.leader.election.enable": "false",
    }


def test_a_topic_that_this_broker_cannot_make_is_reported(file_system: FakeFileSystem) -> None:
    broker = opened(file_system, transaction_state_log_replication_factor="3")
    assert init(broker).error is ErrorCode.COORDINATOR_NOT_AVAILABLE


# Ends


def test_what_is_open_holds_the_stable_offset_in_every_partition(broker: Broker) -> None:
    begin(broker, started(broker))
    for where in (A, B):
        assert broker.topics.partition(*where).log.last_stable_offset == 0
        assert read_committed(broker, where) == []


def test_a_commit_is_seen_in_all_partitions(broker: Broker) -> None:
    claim = started(broker)
    begin(broker, claim)
    assert end(broker, claim) is ErrorCode.NONE
    for where in (A, B):
        assert stable(broker, where)
        assert read_committed(broker, where) == [b"v"]


def test_an_abort_is_seen_in_none(broker: Broker) -> None:
    claim = started(broker)
    begin(broker, claim, b"no")
    end(broker, claim, is_commit=False)
    begin(broker, claim, b"yes", sequence=1)
    end(broker, claim)
    for where in (A, B):
        assert stable(broker, where)
        assert read_committed(broker, where) == [b"yes"]
        (aborted,) = broker.topics.partition(*where).log.reader.aborted_transactions(0, 10)
        assert (aborted.first_offset, aborted.last_offset) == (0, 1)


def test_a_new_producer_aborts_what_the_old_one_left_open(broker: Broker) -> None:
    old = started(broker)
    begin(broker, old, b"old")
    new = started(broker)
    assert new.epoch == old.epoch + 2
    assert end(broker, old) is ErrorCode.PRODUCER_FENCED
    begin(broker, new, b"new")
    end(broker, new)
    assert read_committed(broker, A) == [b"new"]


def test_a_transaction_that_takes_too_long_is_aborted(broker: Broker) -> None:
    claim = started(broker, timeout_ms=1000)
    begin(broker, claim)
    broker.scheduler.run_due(at(999))
    assert not stable(broker, A)
    assert broker.answers.next_deadline_ms == 1000
    broker.scheduler.run_due(at(1000))
    broker.appends.write_out()
    assert stable(broker, A)
    assert read_committed(broker, A) == []
    assert end(broker, claim) is ErrorCode.PRODUCER_FENCED


def test_a_partition_that_is_gone_holds_up_no_end(broker: Broker) -> None:
    claim = started(broker)
    begin(broker, claim)
    broker.admin.delete_topic(broker.topics.get("b"))
    assert end(broker, claim) is ErrorCode.NONE
    assert read_committed(broker, A) == [b"v"]
    assert state_of(broker) == "CompleteCommit"


def test_what_an_administrator_has_ended_holds_up_no_end(broker: Broker) -> None:
    claim = started(broker)
    begin(broker, claim)
    marker = Marker(producer_id=claim.producer_id, epoch=claim.epoch + 1, is_commit=False)
    broker.transactions.markers.write(marker, *A, now_ms=NOW_MS)
    broker.appends.write_out()
    assert end(broker, claim) is ErrorCode.NONE
    assert state_of(broker) == "CompleteCommit"
    assert read_committed(broker, A) == []
    assert read_committed(broker, B) == [b"v"]


# Offsets


@pytest.mark.parametrize("is_commit", [True, False])
def test_offsets_of_a_transaction_count_when_it_commits(broker: Broker, is_commit: bool) -> None:
    claim = started(broker)
    commit_offset(broker, claim, 5)
    assert fetched(broker) == FetchedOffset(committed=None, is_unstable=True)
    end(broker, claim, is_commit=is_commit)
    assert not fetched(broker).is_unstable
    assert offset_of(broker) == (5 if is_commit else None)


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_restart_knows_what_became_of_offsets(
    file_system: FakeFileSystem, is_commit: bool
) -> None:
    broker = with_topics(file_system)
    claim = started(broker)
    commit_offset(broker, claim, 5)
    end(broker, claim, is_commit=is_commit)
    again = opened(file_system.crash(CrashMode.KEEP))
    assert offset_of(again) == (5 if is_commit else None)
    assert stable(again, OFFSETS)


# Restarts


def test_an_open_transaction_continues_after_a_restart(file_system: FakeFileSystem) -> None:
    broker = with_topics(file_system)
    claim = started(broker)
    begin(broker, claim)
    again = opened(file_system.crash(CrashMode.KEEP))
    assert not stable(again, A)
    assert end(again, claim) is ErrorCode.NONE
    assert read_committed(again, A) == [b"v"]


def test_a_producer_id_is_not_handed_out_twice(file_system: FakeFileSystem) -> None:
    broker = with_topics(file_system)
    first = started(broker)
    again = opened(file_system.crash(CrashMode.KEEP))
    assert again.producer_ids.allocate() > first.producer_id
    assert started(again).epoch == first.epoch + 1


def run_to_the_end(file_system: FileSystem, **settings: str) -> tuple[Broker, ProducerClaim]:
    """Two partitions and an offset in a transaction, which is not ended yet."""
    broker = with_topics(file_system, **settings)
    claim = started(broker)
    begin(broker, claim)
    commit_offset(broker, claim, 5)
    return broker, claim


def calls_of_an_end(*, is_commit: bool, **settings: str) -> tuple[int, list[IoCall]]:
    """The number of calls before the end, and all calls."""
    whole = RecordingFileSystem(disk("/d"))
    broker, claim = run_to_the_end(whole, **settings)
    before = len(whole.calls)
    end(broker, claim, is_commit=is_commit)
    return before, whole.calls


@pytest.mark.slow
@pytest.mark.parametrize("is_commit", [True, False])
def test_a_kill_at_any_call_of_an_end_leaves_all_or_nothing(is_commit: bool) -> None:
    """Before each call of an end and in the middle of each write: all partitions then say the
    same, and nothing hangs."""
    outcomes = set()
    for crashed, claim in crashes_of_an_end(is_commit=is_commit, modes=[CrashMode.KEEP]):
        outcomes.add(check_after_crash(opened(crashed), claim, is_commit=is_commit))
    assert outcomes == {"open", "ended"}


@pytest.mark.slow
@pytest.mark.parametrize("is_commit", [True, False])
def test_a_power_failure_leaves_all_or_nothing_where_every_record_is_flushed(
    is_commit: bool,
) -> None:
    modes = [CrashMode.STRICT, CrashMode.RANDOM]
    outcomes = set()
    for crashed, claim in crashes_of_an_end(is_commit=is_commit, modes=modes, **FLUSHED):
        outcomes.add(check_after_crash(opened(crashed), claim, is_commit=is_commit))
    assert outcomes == {"open", "ended"}


def crashes_of_an_end(
    *, is_commit: bool, modes: list[CrashMode], **settings: str
) -> Iterator[tuple[FakeFileSystem, ProducerClaim]]:
    before, calls = calls_of_an_end(is_commit=is_commit, **settings)
    for at_call, effect in product(range(before, len(calls)), (Effect.BEFORE, Effect.PARTIAL)):
        for mode in modes:
            under = disk("/d")
            plan = FaultPlan(at_call=at_call, error=SimulatedCrash(), effect=effect)
            broker, claim = run_to_the_end(FaultyFileSystem(under, plan), **settings)
            with pytest.raises(SimulatedCrash):
                end(broker, claim, is_commit=is_commit)
            yield under.crash(mode, at_call), claim


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_end_that_was_reported_outlives_a_kill(
    file_system: FakeFileSystem, is_commit: bool
) -> None:
    broker, claim = run_to_the_end(file_system)
    end(broker, claim, is_commit=is_commit)
    again = opened(file_system.crash(CrashMode.KEEP))
    assert check_after_crash(again, claim, is_commit=is_commit) == "ended"


def test_the_decision_the_markers_and_the_completion_are_written_in_this_order() -> None:
    before, calls = calls_of_an_end(is_commit=True)
    kinds = (IoKind.PWRITE, IoKind.PWRITEV)
    writes = [call.path for call in calls[before:] if call.kind in kinds]
    written = [path.split("/")[2] for path in writes if path.endswith(".log")]
    state = written[0]
    assert state.startswith(TRANSACTION_STATE)
    assert sorted(written[1:-1]) == ["__consumer_offsets-0", "a-0", "b-0"]
    assert written[-1] == state


def test_a_directory_that_fails_under_a_marker_leaves_the_rest_to_the_next_start() -> None:
    """The other partitions have theirs; nobody gets the id before the last one has its own."""
    paths = ("/d", "/e")
    whole = RecordingFileSystem(disk(*paths))
    broker = with_topics(whole, *paths)
    claim = started(broker)
    begin(broker, claim)
    before = len(whole.calls)
    other = next(
        name
        for name in ("a", "b")
        if broker.topics.partition(name, 0).directory.path != state_directory(broker)
    )
    end(broker, claim)
    at_call = next(
        number
        for number, call in enumerate(whole.calls)
        if number >= before and f"/{other}-0/" in call.path
    )

    under = disk(*paths)
    error = OSError(errno.EIO, "Input/output error")
    broker = with_topics(FaultyFileSystem(under, FaultPlan(at_call=at_call, error=error)), *paths)
    claim = started(broker)
    begin(broker, claim)
    with pytest.raises(StorageError):
        end(broker, claim)
    assert state_of(broker) == "PrepareCommit"
    assert end(broker, claim) is ErrorCode.CONCURRENT_TRANSACTIONS
    broker.scheduler.run_due(at(1000))
    broker.appends.write_out()
    assert state_of(broker) == "PrepareCommit"
    assert broker.answers.next_deadline_ms == 1000 + RETRY_MS
    again = opened(under.crash(CrashMode.KEEP), *paths)
    assert state_of(again) == "CompleteCommit"
    assert read_committed(again, A) == read_committed(again, B) == [b"v"]
    for where in (A, B):
        log = again.topics.partition(*where).log
        assert log.log_end_offset == 2, "no marker is written twice"


def state_of(broker: Broker) -> str:
    described = broker.transactions.machines(at(0))[0].describe("tx")
    assert described is not None
    return described.state


def state_directory(broker: Broker) -> str:
    """Where the transaction's partition of the state topic lies."""
    index = partition_for("tx", 2)
    return broker.topics.partition(TRANSACTION_STATE, index).directory.path


def check_after_crash(broker: Broker, claim: ProducerClaim, *, is_commit: bool) -> str:
    """Whether the transaction is open still; all partitions must agree."""
    state = state_of(broker)
    is_open = state == "Ongoing"
    assert is_open or state == ("CompleteCommit" if is_commit else "CompleteAbort")
    for where in (A, B, OFFSETS):
        assert stable(broker, where) != is_open
    is_visible = is_commit and not is_open
    assert read_committed(broker, A) == read_committed(broker, B) == [b"v"] * is_visible
    assert offset_of(broker) == (5 if is_visible else None)
    assert end(broker, claim, is_commit=is_commit) is ErrorCode.NONE
    assert read_committed(broker, A) == read_committed(broker, B) == [b"v"] * is_commit
    return "open" if is_open else "ended"
