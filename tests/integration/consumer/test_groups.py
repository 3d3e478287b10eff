"""What members of a group do beside each other, and with time."""

import asyncio
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

import ottla
import ottla.aio
from ottla.base.partitions import TopicPartition
from ottla.client.consumer import group
from ottla.client.consumer.assignors import MemberSubscription
from ottla.embedded.log import Log
from ottla.runtime.loops import BlockingCallError
from ottla.testing import LocalBroker
from tests.integration.consumer.styles import EARLIEST, SETTINGS
from tests.support.patience import PATIENCE_S

PARTITIONS = 4
T = [TopicPartition("t", number) for number in range(PARTITIONS)]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with ottla.open(tmp_path, {**SETTINGS, "group.min.session.timeout.ms": 1}) as log:
        log.create_topic("t", partitions=PARTITIONS)
        for number in range(20):
            log.append("t", b"%d" % number, partition=number % PARTITIONS)
        yield log


@pytest.fixture(params=["in process", "socket"])
def target(request: pytest.FixtureRequest, log: Log) -> Log | str:
    return log if request.param == "in process" else log.listen("127.0.0.1:0").address


def test_streams_share_the_partitions_among_threads(target: Log | str) -> None:
    seen: list[ottla.ConsumerRecord] = []
    lock = threading.Lock()
    is_done = threading.Event()

    def run(stream: ottla.Consumer) -> None:
        stream.subscribe("t")
        while not is_done.is_set():
            record = stream.poll(0.05)
            if record is not None:
                with lock:
                    seen.append(record)
                    if len({one[1:3] for one in seen}) == 20:
                        is_done.set()

    with ottla.Consumer(target, "g", settings=EARLIEST) as consumer:
        streams = consumer.streams(2)
        threads = [threading.Thread(target=run, args=(one,)) for one in streams]
        for thread in threads:
            thread.start()
        assert is_done.wait(PATIENCE_S)
        for thread in threads:
            thread.join()
    assert {int(one.value) for one in seen} == set(range(20))


def test_a_consumer_that_takes_nothing_for_too_long_leaves_and_comes_back(log: Log) -> None:
    heard: list[str] = []
    settings = {**EARLIEST, "max.poll.interval.ms": 150, "max.poll.records": 5}
    with ottla.Consumer(log, "g", settings=settings) as consumer:
        consumer.subscribe(
            "t",
            on_assign=lambda _: heard.append("assign"),
            on_lost=lambda _: heard.append("lost"),
        )
        first = consumer.poll(PATIENCE_S)
        assert first is not None
        quiet = {**EARLIEST, "enable.auto.commit": False}
        with ottla.Consumer(log, "g", settings=quiet) as other:
            other.subscribe("t")
            while other.assignment() != set(T):  # The first one does not hold it up.
                other.poll(0.05)
        assert len(consumer.consume(20, 10)) == 20  # Nothing was committed: it begins again.
    assert heard == ["assign", "lost", "assign"]


def test_a_user_can_bring_an_assignor(log: Log) -> None:
    class AllToTheLast:
        name = "all-to-the-last"
        is_cooperative = False

        def user_data(self, owned: frozenset[TopicPartition], generation: int) -> bytes:
            return b"mine"

        def assign(
            self, members: Mapping[str, MemberSubscription], counts: Mapping[str, int]
        ) -> dict[str, Iterable[TopicPartition]]:
            assert {one.user_data for one in members.values()} == {b"mine"}
            return {max(members): [TopicPartition("t", n) for n in range(counts["t"])]}

    settings = {**EARLIEST, "partition.assignment.strategy": ""}
    with ottla.Consumer(log, "g", settings=settings, assignors=[AllToTheLast()]) as consumer:
        consumer.subscribe("t")
        consumer.consume(1, 10)
        assert consumer.assignment() == set(T)


def test_a_new_topic_that_matches_and_new_partitions_are_found(log: Log) -> None:
    settings = {**EARLIEST, "metadata.max.age.ms": 20}
    with ottla.Consumer(log, "g", settings=settings) as consumer:
        consumer.subscribe("^t.*")
        assert len(consumer.consume(20, 10)) == 20
        log.create_topic("t2")
        log.append("t2", b"new")
        record = consumer.poll(PATIENCE_S)
        assert record is not None
        assert (record.topic, record.value) == ("t2", b"new")


def test_a_static_member_that_comes_back_has_its_partitions_at_once(log: Log) -> None:
    heard: list[str] = []
    settings = {**EARLIEST, "group.instance.id": "i"}
    other = {**EARLIEST, "group.instance.id": "j"}
    with ottla.Consumer(log, "g", settings=other) as stays:
        stays.subscribe("t", on_revoke=lambda _: heard.append("revoke"))
        with ottla.Consumer(log, "g", settings=settings) as goes:
            goes.subscribe("t")
            while len(goes.assignment()) != 2 or len(stays.assignment()) != 2:
                goes.poll(0.01)
                stays.poll(0.01)
            before = goes.assignment()
        heard.clear()
        with ottla.Consumer(log, "g", settings=settings) as back:
            back.subscribe("t")
            while not back.assignment():
                back.poll(0.01)
                stays.poll(0.01)
            assert back.assignment() == before
        assert heard == []


@pytest.mark.parametrize(
    ("protocol", "joins", "leaves"),
    [
        ("classic", "join_group", "leave_group"),
        ("consumer", "consumer_group_heartbeat", "consumer_group_heartbeat"),
    ],
)
def test_a_consumer_that_is_closed_while_it_joins_leaves_nothing_in_the_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str, joins: str, leaves: str
) -> None:
    monkeypatch.setattr(group, "ENTERING_PATIENCE_S", PATIENCE_S)
    with LocalBroker(tmp_path, SETTINGS) as broker:
        broker.create_topic("t")
        broker.delay(joins, 0.1, times=1)
        consumer = ottla.Consumer(broker.address, "g", settings={"group.protocol": protocol})
        consumer.subscribe("t")
        while not broker.requests(joins):
            consumer.poll(0.01)
        consumer.close()
        assert broker.requests(leaves) > (1 if leaves == joins else 0)
        assert all(one.is_empty for one in ottla.Admin(broker.log).describe_all_groups())


def test_a_call_that_waits_in_an_event_loop_says_what_to_call(log: Log) -> None:
    async def wait() -> None:
        consumer = ottla.Consumer(log, "g")
        consumer.subscribe("t")
        try:
            with pytest.raises(BlockingCallError, match=r"call ottla\.aio\.Consumer\.poll\(\)"):
                consumer.poll()
        finally:
            await asyncio.to_thread(consumer.close)

    asyncio.run(wait())


def test_an_unknown_setting_suggests_the_nearest(log: Log) -> None:
    with pytest.raises(ottla.UserError, match=r"did you mean auto\.offset\.reset"):
        ottla.Consumer(log, settings={"auto.offset.rest": "earliest"})
    with pytest.raises(ottla.UserError, match=r"one of earliest, latest, none, by_duration:PT1H"):
        ottla.Consumer(log, settings={"auto.offset.reset": "smallest"})


def test_a_simple_consumer_fetches_without_state(target: Log | str) -> None:
    with ottla.SimpleConsumer(target, settings={"fetch.max.wait.ms": 1}) as consumer:
        assert [one.offset for one in consumer.fetch("t", 1, 3)] == [3, 4]
        assert consumer.fetch("t", 1, 5) == []
        positions = [ottla.FetchPosition(topic="t", partition=n, offset=4) for n in (0, 3)]
        found = consumer.multifetch(positions)
        assert {place: [one.value for one in records] for place, records in found.items()} == {
            T[0]: [b"16"],
            T[3]: [b"19"],
        }
        assert consumer.offsets_before("t", 0, max_count=5) == [5, 0]
        assert [one.offset for one in consumer.fetch("t", 1, 3)] == [3, 4]  # It keeps no place.
        with pytest.raises(ottla.UserError, match=r"t-0 from offset 99: OFFSET_OUT_OF_RANGE"):
            consumer.fetch("t", 0, 99)
        with pytest.raises(ottla.UserError, match="the topic has 4"):
            consumer.fetch("t", 7)
