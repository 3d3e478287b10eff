"""`ottla.Producer` and `ottla.aio.Producer` over both transports: what is sent is there, once."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import ottla
import ottla.aio
from ottla.base.errors import UserError
from ottla.base.partitions import TopicPartition
from ottla.client.producing.core import BufferFullError, TransactionError
from ottla.client.producing.partitioners import Partitioning
from ottla.client.producing.sender import DeliveryTimeoutError
from ottla.client.refusals import RefusedError, UnknownTopicError
from ottla.config.producer import CODECS
from ottla.embedded.log import Log
from ottla.record.partitioner import partition_for_key
from ottla.runtime.loops import BlockingCallError
from ottla.testing import LocalBroker
from tests.integration.client.styles import AwaitedProducer, Place
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.ports import free_port

Target = Log | str


ONE = TopicPartition("one", 0)


def values(log: Log, topic: str = "t") -> list[bytes | None]:
    return [one.value for index in range(log.topics()[topic]) for one in log.read(topic, index)]


@pytest.fixture(autouse=True)
def topic(log: Log) -> str:
    log.create_topic("t", partitions=2)
    log.create_topic("one")
    return "t"


ROUTES = {
    "in process": ottla.Producer,
    "in process beside a server": ottla.Producer,
    "socket": ottla.Producer,
    "in process, awaited": AwaitedProducer,
    "socket, awaited": AwaitedProducer,
}


@pytest.fixture(params=ROUTES.items(), ids=ROUTES)
def place(request: pytest.FixtureRequest, log: Log) -> Place:
    (route, make) = request.param
    if route.startswith("in process") and "beside" not in route:
        return Place(log, make)
    listening = log.listen("127.0.0.1:0")
    return Place(listening.address if route.startswith("socket") else log, make)


def test_records_are_sent_with_all_they_have(place: Place, log: Log) -> None:
    with place.producer() as producer:
        sent = producer.send("t", b"tea", b"k", headers=[("a", b"1")], timestamp_ms=9_000)
        found = sent.result(PATIENCE_S)
        assert sent.done()
        assert (found.topic, found.offset, found.timestamp_ms) == ("t", 0, 9_000)
        assert found.partition == partition_for_key(b"k", 2)
        other = producer.send("t", None, b"x", partition=1 - found.partition).result(PATIENCE_S)
        assert other.partition == 1 - found.partition
    record = next(iter(log.read("t", found.partition)))
    assert (record.key, record.value, record.timestamp_ms) == (b"k", b"tea", 9_000)
    assert record.headers == (("a", b"1"),)


def test_a_function_of_the_application_chooses_partitions(place: Place) -> None:
    with place.producer(partitioner=lambda key, count: count - 1) as producer:
        assert producer.send("t", b"x", b"k").result(PATIENCE_S).partition == 1
    refused = pytest.raises(UserError, match="chose partition 2 of t, which has 2")
    with place.producer(partitioner=lambda key, count: count) as producer, refused:
        producer.send("t", b"x")


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_many_records_keep_their_order_in_many_batches(
    place: Place, log: Log, compression: str
) -> None:
    settings = {"batch.size": 500, "linger.ms": 0, "compression.type": compression}
    with place.producer(settings=settings) as producer:
        sent = [producer.send("one", b"%d" % number) for number in range(500)]
        assert producer.flush(20) == 0
        assert [one.result().offset for one in sent] == list(range(500))
        counts = producer.metrics()
        assert counts["records_sent"] == 500
        assert counts["batches_sent"] > 1
        assert counts["records_waiting"] == counts["bytes_waiting"] == len(producer) == 0
    assert values(log, "one") == [b"%d" % number for number in range(500)]


def test_close_sends_what_lingers(place: Place, log: Log) -> None:
    with place.producer(settings={"linger.ms": 60_000}) as producer:
        producer.send("one", b"late")
        producer.close()
        assert values(log, "one") == [b"late"]
        with pytest.raises(UserError, match="closed"):
            producer.send("one", b"too late")


def test_callbacks_hear_of_each_record(place: Place) -> None:
    heard: list[Any] = []
    with place.producer() as producer:
        for number in range(3):
            producer.produce("one", b"%d" % number, on_delivery=lambda *one: heard.append(one))
        futures: list[Any] = []
        producer.send("one", b"last").add_done_callback(futures.append)
    assert [(error, record.offset) for error, record in heard] == [(None, 0), (None, 1), (None, 2)]
    assert futures[0].result().offset == 3


def test_flush_returns_after_the_callbacks_of_what_it_waited_for(target: Target) -> None:
    begun, may_end, heard = threading.Event(), threading.Event(), []

    def slow(*_: object) -> None:
        begun.set()
        assert may_end.wait(PATIENCE_S)
        heard.append("the record")

    # Nothing is sent before it is flushed, and both are in one batch.
    with ottla.Producer(target, settings={"linger.ms": 3_600_000}) as producer:
        producer.produce("one", b"tea", on_delivery=slow)
        producer.send("one", b"cake").add_done_callback(slow)
        flushing = threading.Thread(target=lambda: heard.append(f"{producer.flush()} left"))
        flushing.start()
        assert begun.wait(PATIENCE_S)
        assert producer.flush(0.01) == 2
        may_end.set()
        flushing.join(PATIENCE_S)
        assert heard == ["the record", "the record", "0 left"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_callback_that_raises_stops_nothing(target: Target, log: Log) -> None:
    with ottla.Producer(target) as producer:
        producer.produce("one", b"a", on_delivery=lambda error, record: 1 / 0)
        producer.send("one", b"b").add_done_callback(lambda done: 1 / 0)
        assert producer.flush() == 0
        assert producer.send("one", b"c").result(PATIENCE_S).offset == 2
        done = producer.send("one", b"d")
        producer.flush()
        done.add_done_callback(lambda done: 1 / 0)
        assert producer.metrics()["records_failed"] == len(producer) == 0
    assert values(log, "one") == [b"a", b"b", b"c", b"d"]


def test_a_callback_may_send(target: Target, log: Log) -> None:
    with ottla.Producer(target, settings={"linger.ms": 0}) as producer:
        again = threading.Event()

        def send_again(*_: object) -> None:
            producer.send("one", b"again")
            again.set()

        producer.produce("one", b"first", on_delivery=send_again)
        assert again.wait(PATIENCE_S)
    assert values(log, "one") == [b"first", b"again"]


@pytest.mark.slow
@pytest.mark.parametrize("transactional_id", ["", "waiter"])
def test_a_callback_that_would_wait_for_its_own_thread_is_told_so(
    target: Target, log: Log, transactional_id: str
) -> None:
    told: list[str] = []
    settings = {"linger.ms": 3_600_000, "transactional.id": transactional_id, "buffer.memory": 400}
    producer = ottla.Producer(target, settings=settings)
    calls: list[Callable[[], object]] = [
        producer.flush,
        lambda: producer.flush(PATIENCE_S),
        producer.close,
        lambda: producer.send("one", b"later").result(),
        lambda: producer.send("one", b"later").exception(PATIENCE_S),
        lambda: [producer.send("one", b"more" * 9) for _ in range(9)],
        *([producer.commit_transaction, producer.abort_transaction] if transactional_id else ()),
    ]

    def call(*_: object) -> None:
        assert producer.flush() == 0, "nothing is left to wait for"
        producer.send("one", b"next")
        assert producer.flush(0) == 1
        for one in calls:
            with pytest.raises(BlockingCallError, match="from another thread"):
                one()
            told.append("")

    if transactional_id:
        producer.begin_transaction()
    producer.produce("one", b"tea", on_delivery=call)
    assert producer.flush(PATIENCE_S) == 0
    assert len(told) == len(calls)
    if transactional_id:
        producer.commit_transaction()
    producer.close()
    assert values(log, "one")[:2] == [b"tea", b"next"]


@pytest.mark.slow
def test_a_log_is_not_closed_by_a_callback_of_its_producer_that_has_more_to_send(log: Log) -> None:
    told: list[str] = []

    def call(*_: object) -> None:
        producer.send("one", b"next")
        with pytest.raises(BlockingCallError) as caught:
            log.close()
        told.append(str(caught.value))

    with ottla.Producer(log, settings={"linger.ms": 3_600_000}) as producer:
        producer.produce("one", b"tea", on_delivery=call)
        assert producer.flush(PATIENCE_S) == 0
    assert len(told) == 1
    assert values(log, "one") == [b"tea", b"next"]


def test_acks_0_waits_for_no_answer(place: Place, log: Log) -> None:
    with place.producer(settings={"acks": "0"}) as producer:
        assert producer.send("one", b"x").result(PATIENCE_S).offset == -1
    while values(log, "one") != [b"x"]:
        pass


def test_what_the_broker_refuses_fails_alone(place: Place, log: Log) -> None:
    log.create_topic("small", config={"max.message.bytes": 200})
    with place.producer(settings={"batch.size": 1, "linger.ms": 0}) as producer:
        sent = [producer.send("small", b"x" * size) for size in (1, 500, 2, 3)]
        producer.flush(20)
        with pytest.raises(RefusedError, match="MESSAGE_TOO_LARGE"):
            sent[1].result()
        assert [one.result().offset for one in (sent[0], *sent[2:])] == [0, 1, 2]
        assert producer.metrics()["records_failed"] == 1


def test_a_full_buffer_holds_up_senders(place: Place) -> None:
    settings = {"buffer.memory": 1_000, "max.block.ms": 20_000, "linger.ms": 0}
    with place.producer(settings=settings) as producer:
        for number in range(100):
            producer.send("one", b"%d" % number * 50)
        assert producer.flush(20) == 0
    stuck = {"buffer.memory": 1_000, "max.block.ms": 1, "linger.ms": 60_000}
    with place.producer(settings=stuck) as producer, pytest.raises(BufferFullError):  # noqa: PT012
        for _ in range(100):
            producer.send("one", b"x" * 100)


def test_a_transaction_is_there_whole_or_not_at_all(place: Place, log: Log) -> None:
    with place.producer(settings={"transactional.id": "x"}) as producer:
        with pytest.raises(UserError, match="no transaction has begun"):
            producer.send("t", b"outside")
        with producer.transaction():
            producer.send("t", b"a", b"1")
            producer.send("t", b"b", b"2")
        with pytest.raises(ZeroDivisionError), producer.transaction():  # noqa: PT012
            producer.send("one", b"never seen")
            raise ZeroDivisionError
        with producer.transaction():
            producer.send("one", b"c")
            producer.send_offsets_to_transaction({TopicPartition("t", 0): 7}, "readers")
        with producer.transaction():
            pass
    assert sorted(one or b"" for one in values(log)) == [b"a", b"b"]
    assert values(log, "one") == [b"c"]
    with ottla.Consumer(place.target, group="readers") as consumer:
        assert consumer.committed([TopicPartition("t", 0)])[TopicPartition("t", 0)] == 7


def test_a_record_that_fails_aborts_its_transaction(place: Place, log: Log) -> None:
    log.create_topic("small", config={"max.message.bytes": 200})
    with place.producer(settings={"transactional.id": "x"}) as producer:
        with pytest.raises(TransactionError, match="MESSAGE_TOO_LARGE"), producer.transaction():  # noqa: PT012
            producer.send("one", b"dropped with it")
            producer.send("small", b"x" * 500)
        with producer.transaction():
            producer.send("one", b"kept")
    assert values(log, "one") == [b"kept"]


def test_a_second_producer_fences_the_first(place: Place, log: Log) -> None:
    settings = {"transactional.id": "x"}
    with place.producer(settings=settings) as first:
        first.begin_transaction()
        first.send("one", b"dropped").result(PATIENCE_S)
        with place.producer(settings=settings) as second, second.transaction():
            second.send("one", b"kept")
        with pytest.raises(TransactionError):
            first.commit_transaction()
    assert values(log, "one") == [b"kept"]


def test_serializers_take_what_applications_have(place: Place, log: Log) -> None:
    pytest.importorskip("fastavro")
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}
    for serializer, value, expected in (
        (None, b"tea", b"tea"),
        ("str", "tée", "tée".encode()),
        ("json", {"n": [1, None]}, b'{"n":[1,null]}'),
        (ottla.AvroSerializer(schema), {"n": 5}, b"\x0a"),
        (ottla.AvroSerializer(schema, schema_id=3), {"n": 5}, b"\0\0\0\0\x03\x0a"),
        (lambda number: b"%d" % number, 7, b"7"),
    ):
        with place.producer(value_serializer=serializer) as producer:
            producer.send("one", value)
            assert producer.flush() == 0
        assert values(log, "one")[-1] == expected


def test_several_threads_share_a_producer(target: Target, log: Log) -> None:
    with ottla.Producer(target) as producer:

        def send() -> None:
            for number in range(200):
                producer.send("t", b"%d" % number)

        threads = [threading.Thread(target=send) for _ in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    assert len(values(log)) == 800


# In an event loop


def run(deed: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(deed())  # type: ignore[arg-type]


def test_records_are_sent_from_an_event_loop(target: Target, log: Log) -> None:
    async def deed() -> None:
        settings = {"linger.ms": 0, "batch.size": 500}
        async with ottla.aio.Producer(target, settings=settings) as producer:
            promises = [await producer.send("one", b"%d" % number) for number in range(300)]
            assert await producer.flush(20) == 0
            assert [(await one).offset for one in promises] == list(range(300))
            assert (await producer.send_and_wait("one", b"last")).offset == 300
            with pytest.raises(UnknownTopicError, match="no topic onee; did you mean one"):
                await producer.send("onee", b"x")

    run(deed)
    assert len(values(log, "one")) == 301


def test_an_event_loop_waits_for_the_records_that_it_asks_about(target: Target, log: Log) -> None:
    log.create_topic("small", config={"max.message.bytes": 200})

    async def deed() -> None:
        heard: asyncio.Queue[Any] = asyncio.Queue()
        settings = {"batch.size": 500, "linger.ms": 20}
        async with ottla.aio.Producer(target, settings=settings) as producer:
            sent = [await producer.send("one", b"%d" % number) for number in range(30)]
            sent[3].add_done_callback(heard.put_nowait)
            found = await asyncio.gather(*sent[1:], sent[2], asyncio.wait_for(sent[0], PATIENCE_S))
            assert [one.offset for one in found] == [*range(1, 30), 2, 0]
            assert await heard.get() is sent[3]
            assert sent[3].done()
            assert sent[3].result().offset == 3
            assert (await sent[3]).offset == 3
            refused = await producer.send("small", b"x" * 500)
            with pytest.raises(RefusedError, match="MESSAGE_TOO_LARGE"):
                await refused
            assert isinstance(refused.exception(), RefusedError)

    run(deed)


def test_transactions_in_an_event_loop(target: Target, log: Log) -> None:
    async def deed() -> None:
        settings = {"transactional.id": "x"}
        async with ottla.aio.Producer(target, settings=settings) as producer:
            async with producer.transaction():
                await producer.send("one", b"kept")
            with pytest.raises(ZeroDivisionError):  # noqa: PT012
                async with producer.transaction():
                    await producer.send("one", b"dropped")
                    raise ZeroDivisionError

    run(deed)
    assert values(log, "one") == [b"kept"]


def test_a_blocking_call_in_a_loop_says_what_to_call_instead(log: Log) -> None:
    async def deed() -> None:
        with pytest.raises(BlockingCallError, match=r"ottla\.aio\.Producer\.send"):
            producer.send("t", b"x")
        sent = producer.send("one", b"x")  # The topic is known: there is nothing to wait for.
        with pytest.raises(BlockingCallError, match=r"ottla\.aio\.Producer\.flush"):
            producer.flush()
        while not sent.done():
            await asyncio.sleep(0)

    with ottla.Producer(log) as producer:
        producer.send("one", b"x").result()
        run(deed)


# What needs one transport only


def test_mistakes_say_what_to_do(log: Log) -> None:
    with ottla.Producer(log) as producer:
        with pytest.raises(UnknownTopicError, match="no topic onne; did you mean one"):
            producer.send("onne", b"x")
        with pytest.raises(UserError, match="bytes, not str; name a key_serializer"):
            producer.send("one", "text")
        with pytest.raises(UserError, match="2 partitions; 5 is not one"):
            producer.send("t", b"x", partition=5)
        with pytest.raises(UserError, match=r"max\.request\.size=1048576"):
            producer.send("one", b"x" * (2 << 20))
        with pytest.raises(UserError, match=r"transactional\.id"):
            producer.begin_transaction()
    with pytest.raises(UserError, match="no serializer yaml"):
        ottla.Producer(log, value_serializer="yaml")
    with pytest.raises(UserError, match=r"bach\.size"):
        ottla.Producer(log, settings={"bach.size": 1})


@pytest.mark.parametrize("style", [ottla.Producer, AwaitedProducer])
@pytest.mark.parametrize(
    ("field", "said"),
    [
        ({"headers": [("waiter", 5)]}, "the value of a header is bytes or None, not int"),
        ({"headers": {"waiter": b"Eva"}}, "headers are a list of pairs such as"),
        ({"headers": 5}, "headers are a list of pairs such as"),
        ({"partition": "0"}, "a partition is a whole number such as 0, not"),
    ],
)
def test_a_field_that_cannot_be_sent_is_named_and_nothing_else_lost(
    log: Log, style: Any, field: dict[str, Any], said: str
) -> None:
    with style(log) as producer:
        before = producer.send("one", b"before")
        with pytest.raises(UserError, match=said):
            producer.send("one", b"x", **field)
        assert before.result(PATIENCE_S).offset == 0
        assert producer.send("one", b"after").result(PATIENCE_S).offset == 1


def test_each_codec_is_written_and_read(log: Log) -> None:
    for codec in CODECS:
        with ottla.Producer(log, settings={"compression.type": codec}) as producer:
            producer.send("one", codec.encode() * 100)
    assert values(log, "one") == [codec.encode() * 100 for codec in CODECS]
    batches = [batch for region in log.regions(ONE, 0, 5) for batch in region.batches()]
    assert [one.compression.name.lower() for one in batches] == list(CODECS)


@pytest.mark.parametrize("style", [ottla.Producer, AwaitedProducer])
@pytest.mark.parametrize("is_idempotent", [True, False])
def test_a_record_whose_answer_was_lost_is_there_once_if_its_producer_is_idempotent(
    tmp_path: Path, style: Any, is_idempotent: bool
) -> None:
    settings = {"enable.idempotence": is_idempotent, "retry.backoff.ms": 1, "linger.ms": 0}
    with LocalBroker(tmp_path / "broker") as broker:
        broker.create_topic("one")
        with style(broker.address, settings=settings) as producer:
            for number in range(3):
                broker.drop("produce", is_handled=True)
                producer.send("one", b"%d" % number).result(PATIENCE_S)
        assert [one.value for one in broker.records("one")] == [
            b"%d" % number for number in range(3) for _ in range(1 if is_idempotent else 2)
        ]


def test_a_producer_outlives_a_broker_that_crashes_and_each_record_is_there_once(
    tmp_path: Path,
) -> None:
    settings = {"retry.backoff.ms": 1, "linger.ms": 0}
    with LocalBroker(tmp_path / "broker") as broker:
        broker.create_topic("one")
        with ottla.Producer(broker.address, settings=settings) as producer:
            for number in range(0, 30, 10):
                broker.drop("produce", is_handled=True)
                before = broker.requests("produce")
                sent = [producer.send("one", b"%d" % (number + n)) for n in range(10)]
                wait_until(lambda count=before: broker.requests("produce") > count)
                broker.crash()
                broker.reopen()
                assert [one.result(PATIENCE_S).offset for one in sent] == [
                    *range(number, number + 10)
                ]
        assert [one.value for one in broker.records("one")] == [b"%d" % n for n in range(30)]


def test_a_record_that_no_broker_takes_fails_in_time(log: Log) -> None:
    listening = log.listen("127.0.0.1:0")
    settings = {"delivery.timeout.ms": 50, "retry.backoff.ms": 1, "linger.ms": 0}
    with ottla.Producer(listening.address, settings=settings) as producer:
        producer.send("one", b"there").result(PATIENCE_S)
        listening.close()
        with pytest.raises(DeliveryTimeoutError, match=r"delivery\.timeout\.ms=50"):
            producer.send("one", b"lost").result(PATIENCE_S)


def test_a_producer_outlives_a_broker_that_comes_back(log: Log) -> None:
    address = f"127.0.0.1:{free_port()}"
    listening = log.listen(address)
    settings = {"retry.backoff.ms": 1, "linger.ms": 0}
    with ottla.Producer(address, settings=settings) as producer:
        producer.send("one", b"a").result(PATIENCE_S)
        listening.close()
        sent = producer.send("one", b"b")
        log.listen(address)
        assert sent.result(PATIENCE_S).offset == 1


def test_keys_choose_as_other_clients_do() -> None:
    assert Partitioning("murmur2").partition_of("t", b"key", 7) == partition_for_key(b"key", 7)
    # rd_kafka_msg_partitioner_consistent: CRC-32 of zlib.
    assert Partitioning("consistent").partition_of("t", b"123456789", 1000) == 0xCBF43926 % 1000
    assert Partitioning(lambda key, count: count - 1).partition_of("t", None, 3) == 2


def test_records_without_a_key_stay_together_until_their_batch_is_full() -> None:
    partitioning = Partitioning("murmur2")
    first = partitioning.partition_of("t", None, 3)
    assert {partitioning.partition_of("t", None, 3) for _ in range(20)} == {first}
    partitioning.batch_begun("t", first, 3)
    assert partitioning.partition_of("t", None, 3) != first
