"""The same requests over both transports: a socket, and the handlers of a log in this process."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import pytest

import ottla
import ottla.aio
from ottla.base.clock import SystemClock
from ottla.base.error_codes import ErrorCode
from ottla.base.errors import UserError
from ottla.base.partitions import TopicPartition
from ottla.client.bulk.producer_identity import init_producer
from ottla.client.bulk.reading import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    Fetched,
    FetchFrom,
    fetch,
    list_offset,
)
from ottla.client.bulk.transactions import add_partitions, end_transaction
from ottla.client.connecting.cluster import Cluster, CoordinatorKind
from ottla.client.connecting.connection import Connection
from ottla.client.connecting.target import open_target
from ottla.embedded.log import Log
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.record.batch import batch_at
from ottla.record.builder import RecordBatchBuilder
from ottla.record.record import read_records
from tests.support.patience import PATIENCE_S

T = TypeVar("T")

LAST_WITH_NAMES = 12


def in_thread(deed: Callable[[], T]) -> "Future[T]":
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(deed())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def batch(*values: bytes, **producer: Any) -> bytes:
    builder = RecordBatchBuilder(**producer)
    for value in values:
        builder.append(None, value, SystemClock().now_ms())
    return bytes(builder.build())


def produce(
    broker: Connection, records: bytes, *, acks: int = -1, transactional_id: str | None = None
) -> Any:
    data = PartitionProduceData(index=0, records=records)
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name="t", partition_data=[data])],
    )
    answer = broker.ask(request, newest=11)
    return None if answer is None else answer.responses[0].partition_responses[0]


def read(broker: Connection, offset: int, **wanted: Any) -> Fetched:
    return fetch(
        broker, FetchFrom(topic="t", partition=0, offset=offset, max_size=1 << 20, **wanted)
    )


def values(found: Fetched) -> list[bytes | None]:
    return [one.value for one in read_records(batch_at(found.records))]


@pytest.fixture
def topic(log: Log) -> str:
    log.create_topic("t")
    return "t"


@pytest.fixture
def broker(cluster: Cluster, topic: str) -> Connection:
    return cluster.leader(topic, 0)


def test_topics_are_created_and_listed(cluster: Cluster, log: Log) -> None:
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name="made", num_partitions=3, replication_factor=1)],
        timeout_ms=1000,
    )
    answer = cluster.ask_any(lambda broker: broker.ask(request))
    assert [(one.name, one.error_code) for one in answer.topics] == [("made", 0)]
    assert cluster.topic_names() == ["made"]
    assert sorted(cluster.topic("made").leaders) == [0, 1, 2]
    assert log.topics() == {"made": 3}


def test_a_refusal_is_an_answer(broker: Connection) -> None:
    answer = broker.ask(ProduceRequest(acks=7, topic_data=[]), newest=11)
    assert answer.responses == []
    assert produce(broker, batch(b"x"), acks=7).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert produce(broker, b"x" * 100).error_code == ErrorCode.INVALID_RECORD


def test_what_is_produced_is_fetched(broker: Connection, log: Log) -> None:
    assert produce(broker, batch(b"a", b"b")).base_offset == 0
    assert produce(broker, batch(b"c")).base_offset == 2
    assert produce(broker, batch(b"d"), acks=0) is None
    found = read(broker, 0)
    assert isinstance(found.records, memoryview)
    assert values(found) == [b"a", b"b"]
    while not (found := read(broker, 3)).records:  # acks=0 waits for nothing
        pass
    assert values(found) == [b"d"]
    assert [one.value for one in log.read("t")] == [b"a", b"b", b"c", b"d"]


def test_what_was_fetched_stays_when_its_topic_is_deleted(broker: Connection, log: Log) -> None:
    produce(broker, batch(b"kept"))
    found = read(broker, 0)
    log.delete_topic("t")
    assert values(found) == [b"kept"]


def test_offsets_are_listed_by_time(broker: Connection) -> None:
    produce(broker, batch(b"a", b"b"))
    assert list_offset(broker, "t", 0, EARLIEST) == 0
    assert list_offset(broker, "t", 0, LATEST) == 2
    assert list_offset(broker, "t", 0, 0) == 0


def test_a_fetch_waits_for_what_another_thread_appends(broker: Connection, log: Log) -> None:
    waiting = in_thread(lambda: read(broker, 0, max_wait_ms=20_000))
    log.append("t", b"late")
    assert values(waiting.result(PATIENCE_S)) == [b"late"]


def test_a_fetch_that_finds_nothing_ends_at_its_time(broker: Connection) -> None:
    assert not read(broker, 0, max_wait_ms=20).records


def test_two_requests_are_on_their_way_at_once(broker: Connection) -> None:
    produce(broker, batch(b"a"))
    request = ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                name="t",
                partition_data=[PartitionProduceData(index=0, records=batch(b"b"))],
            )
        ],
    )
    first, second = broker.send(request, newest=11), broker.send(request, newest=11)
    offsets = [one().responses[0].partition_responses[0].base_offset for one in (second, first)]
    assert offsets == [2, 1]
    together = broker.send_all([request] * 4, newest=11)
    assert [one().responses[0].partition_responses[0].base_offset for one in together[1:]] == [
        4,
        5,
        6,
    ]
    assert read(broker, 3, max_wait_ms=20).records
    assert together[0]().responses[0].partition_responses[0].base_offset == 3


def join(broker: Connection, member_id: str = "", **fields: Any) -> Any:
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"what I read")],
    )
    for name, value in fields.items():
        setattr(request, name, value)
    return broker.ask(request)


def join_twice(broker: Connection, **fields: Any) -> Any:
    known = join(broker, **fields)
    assert known.error_code == ErrorCode.MEMBER_ID_REQUIRED
    return join(broker, known.member_id, **fields)


def sync(broker: Connection, joined: Any, **shares: bytes) -> Any:
    request = SyncGroupRequest(
        group_id="g",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[
            SyncGroupRequestAssignment(member_id=member, assignment=share)
            for member, share in shares.items()
        ],
    )
    return broker.ask(request)


def coordinator(cluster: Cluster, asked: Callable[[Connection], T]) -> T:
    return cluster.ask_coordinator(CoordinatorKind.GROUP, "g", asked)


def heartbeat(broker: Connection, joined: Any) -> ErrorCode:
    request = HeartbeatRequest(
        group_id="g", generation_id=joined.generation_id, member_id=joined.member_id
    )
    return ErrorCode(broker.ask(request).error_code)


def test_members_join_sync_and_commit(target: Log | str, topic: str) -> None:
    with open_target(target) as one, open_target(target) as other:
        first = coordinator(one, join_twice)
        assert first.leader == first.member_id
        synced = coordinator(one, lambda broker: sync(broker, first, **{first.member_id: b"all"}))
        assert synced.assignment == b"all"
        second = in_thread(lambda: coordinator(other, join_twice))
        while coordinator(one, lambda broker: heartbeat(broker, first)) == ErrorCode.NONE:
            pass
        again = coordinator(one, lambda broker: join(broker, first.member_id))
        joined = second.result(PATIENCE_S)
        assert {again.generation_id, joined.generation_id} == {2}
        assert len(again.members) == 2
        waiting = in_thread(lambda: coordinator(other, lambda broker: sync(broker, joined)))
        shares = {again.member_id: b"left", joined.member_id: b"right"}
        assert coordinator(one, lambda broker: sync(broker, again, **shares)).assignment == b"left"
        assert waiting.result(PATIENCE_S).assignment == b"right"
        request = OffsetCommitRequest(
            group_id="g",
            generation_id_or_member_epoch=2,
            member_id=again.member_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
                    ],
                )
            ],
        )
        answer = coordinator(one, lambda broker: broker.ask(request, newest=8))
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
        asking = OffsetFetchRequest(
            group_id="g", topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[0])]
        )
        found = coordinator(other, lambda broker: broker.ask(asking, newest=7))
        assert found.topics[0].partitions[0].committed_offset == 5


def test_a_member_that_falls_silent_is_left_behind(cluster: Cluster, topic: str) -> None:
    silent = {"session_timeout_ms": 30, "rebalance_timeout_ms": 30}
    gone = coordinator(cluster, lambda broker: join_twice(broker, **silent))
    coordinator(cluster, lambda broker: sync(broker, gone, **{gone.member_id: b"all"}))
    joined = coordinator(cluster, join_twice)
    assert len(joined.members) == 1
    assert coordinator(cluster, lambda broker: heartbeat(broker, gone)) == (
        ErrorCode.UNKNOWN_MEMBER_ID
    )


def test_transactions_commit_and_abort(cluster: Cluster, broker: Connection) -> None:
    for is_commit, value in ((True, b"kept"), (False, b"dropped"), (True, b"last")):
        who = init_producer(cluster, "x", 60_000)
        add_partitions(cluster, who, [TopicPartition("t", 0)])
        stamped = batch(
            value,
            producer_id=who.producer_id,
            producer_epoch=who.epoch,
            base_sequence=0,
            is_transactional=True,
        )
        assert produce(broker, stamped, transactional_id="x").error_code == ErrorCode.NONE
        assert end_transaction(cluster, who, is_commit=is_commit)
    kept, aborted = read(broker, 0, isolation_level=READ_COMMITTED), who.producer_id
    assert values(kept) == [b"kept"]
    assert kept.last_stable_offset == kept.high_watermark == 6
    assert kept.aborted == ((aborted, 2),)


def test_a_transaction_that_takes_too_long_is_aborted(
    cluster: Cluster, broker: Connection, log: Log
) -> None:
    is_open = False
    while not is_open:  # on a busy host one may take too long before it has a record
        who = init_producer(cluster, "x", 50)
        begin = read(broker, 0).high_watermark
        add_partitions(cluster, who, [TopicPartition("t", 0)])
        stamped = batch(
            b"never seen",
            producer_id=who.producer_id,
            producer_epoch=who.epoch,
            base_sequence=0,
            is_transactional=True,
        )
        is_open = produce(broker, stamped, transactional_id="x").error_code == ErrorCode.NONE
    while not (found := read(broker, 0, isolation_level=READ_COMMITTED, max_wait_ms=50)).aborted:
        pass
    assert found.last_stable_offset == begin + 2


def test_versions_are_those_that_both_know(broker: Connection) -> None:
    assert broker.answers(ApiKey.FETCH)
    assert broker.version_of(ApiKey.FETCH, newest=LAST_WITH_NAMES) == LAST_WITH_NAMES
    assert not broker.answers(ApiKey.CONTROLLED_SHUTDOWN)


def test_a_closed_log_refuses_and_wakes_those_who_wait(log: Log) -> None:
    log.create_topic("t")
    with open_target(log) as cluster:
        broker = cluster.leader("t", 0)
        answer = broker.send(_long_fetch(), newest=LAST_WITH_NAMES)
        waiting = in_thread(answer)
        log.close()
        with pytest.raises(UserError, match="closed"):
            waiting.result(PATIENCE_S)
        with pytest.raises(UserError, match="closed"):
            read(broker, 0)


def _long_fetch() -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    return FetchRequest(
        max_wait_ms=60_000,
        min_bytes=1,
        max_bytes=1000,
        topics=[FetchTopic(topic="t", partitions=[partition])],
    )


def test_a_wait_continues_when_the_server_beside_it_is_closed(log: Log) -> None:
    log.create_topic("t")
    listening = log.listen("127.0.0.1:0")
    with open_target(log) as cluster:
        broker = cluster.leader("t", 0)
        waiting = in_thread(lambda: read(broker, 0, max_wait_ms=20_000))
        listening.close()
        log.append("t", b"late")
        assert values(waiting.result(PATIENCE_S)) == [b"late"]


@pytest.mark.slow
def test_a_long_request_lets_appenders_in(log: Log) -> None:
    log.create_topic("t")
    wanted = [
        CreatableTopic(name=f"many-{number}", num_partitions=1, replication_factor=1)
        for number in range(300)
    ]
    with open_target(log) as cluster:
        request = CreateTopicsRequest(topics=wanted, timeout_ms=60_000)
        making = in_thread(lambda: cluster.ask_any(lambda broker: broker.ask(request)))
        count = 0
        while not making.done():
            log.append("t", b"x")
            count += 1
        assert all(one.error_code == 0 for one in making.result(PATIENCE_S).topics)
        assert count > 1


ENCODED = """
import sys
import ottla
from ottla.codec.schema import Message

settings = {"auto.offset.reset": "earliest"}
with ottla.open(":memory:") as log:
    target = log if sys.argv[1] == "in process" else log.listen("127.0.0.1:0").address
    with ottla.Admin(target) as admin:
        admin.create_topic("t", partitions=2)
    with ottla.Producer(target, settings={"transactional.id": "x"}) as producer:
        with producer.transaction():
            producer.send("t", b"tea")
    with ottla.Consumer(target, "g", settings=settings) as consumer:
        consumer.subscribe("t")
        assert consumer.poll(100).value == b"tea"
        consumer.commit()
kinds = Message.__subclasses__()
print(*(one.__name__ for one in kinds if one.API_KEY is not None and (one.WRITERS or one.READERS)))
"""
"""Says which messages were written or read as bytes: the first time makes the function for it."""


@pytest.mark.slow
def test_in_process_nothing_is_encoded_for_the_wire() -> None:
    encoded = {}
    for transport in ("in process", "socket"):
        command = [sys.executable, "-c", ENCODED, transport]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr
        encoded[transport] = done.stdout.split()
    # The metadata log, which is on the disk.
    assert [one for one in encoded["in process"] if not one.endswith("Record")] == []
    assert {"ProduceRequest", "FetchResponse", "JoinGroupRequest"} <= set(encoded["socket"])


# Targets


def test_a_directory_that_is_named_twice_is_opened_once(tmp_path: Path) -> None:
    with open_target(tmp_path) as one, open_target(str(tmp_path)) as other:
        made = CreateTopicsRequest(
            topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)],
            timeout_ms=1000,
        )
        one.ask_any(lambda broker: broker.ask(made))
        assert other.topic_names() == ["t"]
        one.close()
        assert other.topic_names() == ["t"]
    with ottla.open(tmp_path) as log:
        assert log.topics() == {"t": 1}


def test_clients_of_a_directory_share_it_and_leave_it_closed(tmp_path: Path) -> None:
    async def more() -> None:
        async with ottla.aio.Producer(tmp_path) as producer, ottla.aio.Admin(tmp_path) as admin:
            assert await admin.list_topics() == ["t"]
            assert (await producer.send_and_wait("t", b"b")).offset == 1

    with (
        ottla.Admin(tmp_path) as admin,
        ottla.Producer(str(tmp_path)) as producer,
        ottla.Consumer(tmp_path) as consumer,
        ottla.SimpleConsumer(tmp_path) as simple,
    ):
        admin.create_topic("t", partitions=1)
        producer.send("t", b"a").result(PATIENCE_S)
        asyncio.run(more())
        consumer.assign({TopicPartition("t", 0): 0})
        assert [one.value for one in consumer.consume(2, PATIENCE_S)] == [b"a", b"b"]
        assert [one.value for one in simple.fetch("t", 0, 1)] == [b"b"]
    with ottla.open(tmp_path) as log:
        assert [one.value for one in log.read("t")] == [b"a", b"b"]


def test_a_missing_directory_is_made_where_that_is_allowed(tmp_path: Path) -> None:
    path = tmp_path / "data"
    with pytest.raises(UserError, match=f"no directory {path}"):
        open_target(path)
    with open_target(path, may_make=True) as cluster:
        assert cluster.topic_names() == []


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "kafka1.example.com"])
def test_a_host_whose_port_was_forgotten_is_not_made_a_directory(
    host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="a broker is HOST:PORT") as refused:
        ottla.Producer(host)
    assert f"such as {host}:9092" in str(refused.value)
    assert list(tmp_path.iterdir()) == []
    ottla.Producer(f"./{host}").close()
    ottla.Producer(Path(host)).close()
    ottla.Producer(host).close()


def test_a_directory_may_be_named_like_an_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "localhost:1").mkdir()
    with open_target("localhost:1") as cluster:
        assert cluster.topic_names() == []
