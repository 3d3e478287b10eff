"""librdkafka consumes in groups of the new protocol (KIP-848): share, leave, come back, resume."""

import contextlib
import logging
import signal
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupType, KafkaError
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from ottla.base.clock import SystemClock, read_clock
from ottla.base.timestamps import Timestamps
from ottla.broker.broker import Broker
from ottla.coordinator.consumer.requests import (
    ConsumerGroupDescription,
    HeartbeatAnswer,
    HeartbeatRequest,
)
from ottla.coordinator.decision import Decision
from ottla.metadata.deciding.topics import NewTopic
from tests.compat.group_consumers import TOPIC, ConfluentConsumer, poll_until, share
from tests.compat.test_clients_in_groups import (
    ALL,
    PARTITION_COUNT,
    PER_PARTITION,
    has_all,
    produce,
)
from tests.integration.cli.support import serving as serving_process
from tests.support.patience import PATIENCE_S
from tests.support.serving import open_broker, serving

pytestmark = pytest.mark.slow

SETTINGS = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "num.partitions": str(PARTITION_COUNT),
    "offsets.topic.num.partitions": "4",
}


class NewConsumer(ConfluentConsumer):
    def __init__(self, address: str, group_id: str, topic: str = TOPIC, **options: str) -> None:
        config = {
            "bootstrap.servers": address,
            "group.id": group_id,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 500,
            "topic.metadata.refresh.interval.ms": 500,
            **{name.replace("_", "."): value for name, value in options.items()},
        }
        self._subscribe(config, topic)


class Home:
    """A served broker, and the consumers that are to be closed before it."""

    def __init__(self, broker: Broker, address: str) -> None:
        self.broker = broker
        self.address = address
        self._stack = contextlib.ExitStack()

    def consumer(self, **options: str) -> NewConsumer:
        consumer = NewConsumer(self.address, "g", **options)
        self._stack.callback(consumer.close)
        return consumer

    def group(self) -> ConsumerGroupDescription:
        found = self.broker.groups.machines(read_clock(SystemClock()))[0].describe_consumer("g")
        assert found is not None
        return found

    def close(self) -> None:
        self._stack.close()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    settings = {name.replace(".", "_"): value for name, value in SETTINGS.items()}
    broker = open_broker(tmp_path / "data", group_initial_rebalance_delay_ms="0", **settings)
    broker.admin.create_topic(NewTopic(name=TOPIC))
    with serving(broker) as server:
        home = Home(broker, "{}:{}".format(*server.address))
        produce(home.address)
        yield home
        home.close()


def test_a_group_of_one_reads_everything_once(home: Home) -> None:
    consumer = home.consumer()
    poll_until(lambda: len(consumer.seen) >= len(ALL), consumer)
    assert sorted(consumer.seen) == sorted(ALL)


def test_who_comes_later_begins_where_the_group_has_committed(home: Home) -> None:
    first = NewConsumer(home.address, "g")
    poll_until(lambda: has_all(first), first)
    first.commit()
    first.close()
    produce(home.address)
    second = home.consumer()
    poll_until(lambda: len(second.seen) >= len(ALL), second)
    assert sorted(second.seen) == sorted((one, two + PER_PARTITION) for one, two in ALL)


def test_members_share_the_partitions_as_they_come_and_go(home: Home) -> None:
    first = home.consumer()
    poll_until(lambda: share(PARTITION_COUNT, first), first)
    second = NewConsumer(home.address, "g")
    poll_until(lambda: share(PARTITION_COUNT, first, second), first, second)
    kept = first.assignment()
    assert len(kept) == len(second.assignment()) == PARTITION_COUNT / 2
    assert first.revoked == [set(range(PARTITION_COUNT)) - kept]
    second.close()
    poll_until(lambda: share(PARTITION_COUNT, first), first)


def test_a_member_may_ask_for_another_assignor(home: Home) -> None:
    first = home.consumer(group_remote_assignor="range")
    second = home.consumer(group_remote_assignor="range")
    poll_until(lambda: share(PARTITION_COUNT, first, second), first, second)
    assert home.group().assignor == "range"
    assert {0, 1} in (first.assignment(), second.assignment())


def test_a_static_member_that_restarts_disturbs_nobody(home: Home) -> None:
    stays = home.consumer(group_instance_id="a")
    goes = NewConsumer(home.address, "g", group_instance_id="b")
    poll_until(lambda: share(PARTITION_COUNT, stays, goes), stays, goes)
    poll_until(lambda: home.group().state == "Stable", stays, goes)
    epoch, assignment = home.group().epoch, goes.assignment()
    goes.close()
    back = home.consumer(group_instance_id="b")
    poll_until(lambda: bool(back.assignment()), stays, back)
    assert back.assignment() == assignment
    assert home.group().epoch == epoch
    assert share(PARTITION_COUNT, stays, back)


def test_a_member_that_says_nothing_is_missed_after_its_session(home: Home) -> None:
    stays = home.consumer()
    poll_until(lambda: share(PARTITION_COUNT, stays), stays)
    enter_silently(home)
    poll_until(lambda: len(stays.assignment()) < PARTITION_COUNT, stays)
    poll_until(lambda: share(PARTITION_COUNT, stays), stays)
    assert len(home.group().members) == 1


def enter_silently(home: Home) -> None:
    """A client that dies right after its first heartbeat."""
    home.broker.groups.carry_out(
        home.broker.groups.machines(read_clock(SystemClock()))[0].consumer_heartbeat(
            HeartbeatRequest(
                group_id="g",
                member_id="dead",
                rebalance_timeout_ms=5000,
                topic_names=frozenset({TOPIC}),
                owned=frozenset(),
            ),
            read_clock(SystemClock()),
        ),
        read_clock(SystemClock()),
    )


def test_new_partitions_are_read(home: Home) -> None:
    consumer = home.consumer()
    poll_until(lambda: share(PARTITION_COUNT, consumer), consumer)
    admin = AdminClient({"bootstrap.servers": home.address})
    admin.create_partitions([NewPartitions(TOPIC, PARTITION_COUNT + 1)])[TOPIC].result()
    poll_until(lambda: share(PARTITION_COUNT + 1, consumer), consumer)


def set_interval(home: Home, milliseconds: int) -> None:
    """How often members of the group are to send heartbeats, as an administrator changes it."""
    entry = ConfigEntry(
        "consumer.heartbeat.interval.ms",
        str(milliseconds),
        incremental_operation=AlterConfigOpType.SET,
    )
    group = ConfigResource(ResourceType.GROUP, "g", incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": home.address})
    admin.incremental_alter_configs([group])[group].result()


def test_heartbeats_come_as_often_as_the_group_is_told(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    times: list[float] = []
    take_in = home.broker.groups.known[0].consumer_heartbeat

    def note(request: HeartbeatRequest, at: Timestamps) -> Decision[HeartbeatAnswer]:
        times.append(at.monotonic_ms)
        return take_in(request, at)

    def gaps() -> list[float]:
        return [later - earlier for earlier, later in pairwise(times)][-3:]

    monkeypatch.setattr(home.broker.groups.known[0], "consumer_heartbeat", note)
    consumer = home.consumer()
    poll_until(lambda: share(PARTITION_COUNT, consumer), consumer)
    set_interval(home, 1000)
    times.clear()
    poll_until(lambda: max(gaps(), default=0) > 900, consumer)
    set_interval(home, 100)
    times.clear()
    poll_until(lambda: len(gaps()) == 3 and max(gaps()) < 250, consumer)


def test_topics_are_subscribed_to_by_an_expression(home: Home) -> None:
    consumer = home.consumer(topic=f"^{TOPIC[:3]}.*")
    poll_until(lambda: has_all(consumer), consumer)


def test_a_classic_group_continues_in_the_new_protocol_and_back(home: Home) -> None:
    first = ConfluentConsumer(home.address, "g")
    poll_until(lambda: has_all(first), first)
    first.commit()
    first.close()
    produce(home.address)
    second = NewConsumer(home.address, "g")
    poll_until(lambda: len(second.seen) >= len(ALL), second)
    assert sorted(second.seen) == sorted((one, two + PER_PARTITION) for one, two in ALL)
    second.commit()
    second.close()
    produce(home.address)
    third = ConfluentConsumer(home.address, "g")
    poll_until(lambda: len(third.seen) >= len(ALL), third)
    assert sorted(third.seen) == sorted((one, two + 2 * PER_PARTITION) for one, two in ALL)
    third.close()


def test_who_speaks_the_other_protocol_is_told_so(home: Home) -> None:
    classic = ConfluentConsumer(home.address, "g")
    poll_until(lambda: share(PARTITION_COUNT, classic), classic)
    stranger = home.consumer()
    poll_until(lambda: bool(stranger.errors), classic, stranger)
    assert stranger.errors[0].code() == KafkaError._FATAL
    assert "group id does not exist" in stranger.errors[0].str()
    assert share(PARTITION_COUNT, classic)
    classic.close()


def test_a_group_continues_after_the_broker_was_killed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    options = [word for name, value in SETTINGS.items() for word in ("-o", f"{name}={value}")]
    data = tmp_path / "data"
    with serving_process(data, *options) as (address, process):
        produce(address)
        members = [NewConsumer(address, "g"), NewConsumer(address, "g", group_instance_id="a")]
        poll_until(lambda: share(PARTITION_COUNT, *members), *members)
        produce(address)  # Now each has something of its own to commit.
        poll_until(lambda: seen_by(members) >= records(2), *members)
        for member in members:
            member.commit()
        before = [member.assignment() for member in members]
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
    for member in members:
        member.seen.clear()
    with serving_process(None, "-d", str(data), "--listen", address, *options):
        produce(address)
        later = records(3) - records(2)
        poll_until(lambda: seen_by(members) >= later, *members)
        assert [member.assignment() for member in members] == before, "nobody was fenced"
        for member in members:
            member.close()
        again = NewConsumer(address, "g")
        poll_until(lambda: len(again.seen) >= len(ALL) / 2, again)
        assert set(again.seen) <= later, "committed was what was read before the kill"
        again.close()


def records(times: int) -> set[tuple[int, int]]:
    """What a topic holds that was produced to so many times."""
    return {(one, two + PER_PARTITION * number) for one, two in ALL for number in range(times)}


def seen_by(members: list[NewConsumer]) -> set[tuple[int, int]]:
    return {one for member in members for one in member.seen}


def test_librdkafkas_administrator_sees_and_changes_groups(home: Home) -> None:
    consumer = home.consumer()
    poll_until(lambda: has_all(consumer), consumer)
    consumer.commit()
    admin = AdminClient({"bootstrap.servers": home.address})
    listed: Any = admin.list_consumer_groups(types={ConsumerGroupType.CONSUMER}).result()
    assert [(one.group_id, one.type.name) for one in listed.valid] == [("g", "CONSUMER")]
    classic: Any = admin.list_consumer_groups(types={ConsumerGroupType.CLASSIC}).result()
    assert classic.valid == []
    described = admin.describe_consumer_groups(["g"])["g"].result()
    assert (described.state.name, described.type.name) == ("STABLE", "CONSUMER")
    (member,) = described.members
    assert len(member.assignment.topic_partitions) == PARTITION_COUNT
    home.close()
    admin.delete_consumer_groups(["g"])["g"].result()
    assert admin.list_consumer_groups().result().valid == []
