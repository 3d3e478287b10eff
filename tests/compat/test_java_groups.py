"""Apache Kafka's Java client consumes in groups of both protocols: share, leave, die, resume."""

import contextlib
import itertools
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.compat.group_consumers import share
from tests.compat.java import (
    array_list,
    java_class,
    kafka,
    needs_java_client,
    needs_version_4,
    wait,
)
from tests.compat.java_clients import (
    JavaConsumer,
    administrator,
    create_topic,
    java_map,
    place,
    poll_until,
    record,
    send_all,
)
from tests.integration.cli.support import serving
from tests.support.patience import PATIENCE_S

pytestmark = [pytest.mark.slow, needs_java_client]

PARTITION_COUNT = 4
PER_PARTITION = 20
ALL = set(itertools.product(range(PARTITION_COUNT), range(PER_PARTITION)))
OPTIONS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "offsets.topic.num.partitions": "4",
}
WORDS = [word for one in OPTIONS.items() for word in ("-o", "=".join(one))]
CONSUMER = {"group_protocol": "consumer"}
COOPERATIVE = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
RANGE = "org.apache.kafka.clients.consumer.RangeAssignor"
KINDS: dict[str, dict[str, str]] = {
    "range": {"partition_assignment_strategy": RANGE},
    "cooperative-sticky": {"partition_assignment_strategy": COOPERATIVE},
    "new protocol, uniform": {**CONSUMER, "group_remote_assignor": "uniform"},
    "new protocol, range": {**CONSUMER, "group_remote_assignor": "range"},
}
names = (f"name{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("java") / "data", *WORDS) as (address, _):
        yield address


class Home:
    """A group of a name of its own, and a topic with records; members are closed at the end."""

    def __init__(self, address: str, **settings: Any) -> None:
        self.address = address
        self.topic = self.group = next(names)
        self.settings = settings
        self._stack = contextlib.ExitStack()
        create_topic(address, self.topic, PARTITION_COUNT)
        self.produce()

    def produce(self) -> None:
        places = itertools.product(range(PER_PARTITION), range(PARTITION_COUNT))
        send_all(self.address, [record(self.topic, "v", partition=one) for _, one in places])

    def member(self, topic: Any = None, **settings: Any) -> JavaConsumer:
        member = self.member_that_leaves(topic, **settings)
        self._stack.callback(member.close)
        return member

    def member_that_leaves(self, topic: Any = None, **settings: Any) -> JavaConsumer:
        given = {**self.settings, **settings}
        return JavaConsumer(self.address, self.group, topic or self.topic, **given)

    def described(self) -> Any:
        with administrator(self.address) as admin:
            asked = admin.describeConsumerGroups(array_list([self.group]))
            return wait(asked.all())[self.group]

    def close(self) -> None:
        self._stack.close()


@pytest.fixture(params=KINDS)
def home(address: str, request: pytest.FixtureRequest) -> Iterator[Home]:
    home = Home(address, **KINDS[request.param])
    yield home
    home.close()


@pytest.fixture(params=["classic", "consumer"])
def either(address: str, request: pytest.FixtureRequest) -> Iterator[Home]:
    """For what does not depend on who assigns."""
    home = Home(address, group_protocol=request.param)
    yield home
    home.close()


def test_members_share_the_partitions_as_they_come_and_go(home: Home) -> None:
    first = home.member()
    poll_until(lambda: set(first.seen) == ALL, first)
    first.commit()
    second = home.member_that_leaves()
    poll_until(lambda: share(PARTITION_COUNT, first, second), first, second)
    home.produce()
    poll_until(lambda: len(first.seen) + len(second.seen) >= 2 * len(ALL), first, second)
    for one in (first, second):
        one.commit()
    second.close()
    poll_until(lambda: share(PARTITION_COUNT, first), first)
    home.produce()
    poll_until(lambda: len(first.seen) + len(second.seen) >= 3 * len(ALL), first)
    assert len(set(first.seen + second.seen)) == len(first.seen) + len(second.seen) == 3 * len(ALL)


def test_a_member_that_dies_is_missed_after_its_session(either: Home) -> None:
    """Dies: it polls no more, so its client tells the group that it is gone, or says nothing."""
    stays = either.member()
    dies = either.member_that_leaves(max_poll_interval_ms=3000, **session(either, 3000))
    poll_until(lambda: share(PARTITION_COUNT, stays, dies), stays, dies)
    poll_until(lambda: share(PARTITION_COUNT, stays), stays)
    dies.close()


def session(home: Home, timeout_ms: int) -> dict[str, int]:
    is_new = home.settings["group_protocol"] == "consumer"
    return {} if is_new else {"session_timeout_ms": timeout_ms, "heartbeat_interval_ms": 100}


def test_a_static_member_that_restarts_gets_what_it_had(either: Home) -> None:
    stays = either.member(group_instance_id="a")
    goes = either.member_that_leaves(group_instance_id="b")
    poll_until(lambda: share(PARTITION_COUNT, stays, goes), stays, goes)
    had = goes.assignment()
    goes.close()
    back = either.member(group_instance_id="b")
    poll_until(lambda: bool(back.assignment()), stays, back)
    assert back.assignment() == had
    assert share(PARTITION_COUNT, stays, back)


def test_a_second_holder_of_an_instance_id_is_told(either: Home) -> None:
    """The older one with the classic protocol, the newer one with the new."""
    first = either.member_that_leaves(group_instance_id="a")
    poll_until(lambda: bool(first.assignment()), first)
    second = either.member_that_leaves(group_instance_id="a")
    fenced = kafka("common.errors.FencedInstanceIdException")
    unreleased = kafka("common.errors.UnreleasedInstanceIdException")
    with pytest.raises((fenced, unreleased)):
        poll_until(lambda: False, second, first)
    first.close()
    second.close()


def test_offsets_are_committed_at_once_or_later_and_found_again(either: Home) -> None:
    first = either.member_that_leaves()
    poll_until(lambda: set(first.seen) == ALL, first)
    where = kafka("clients.consumer.OffsetAndMetadata")
    first.client.commitSync(java_map({place(either.topic, 1): where(7, "seven")}))
    first.client.commitAsync(java_map({place(either.topic, 2): where(9)}), None)
    first.client.commitSync(java_map({place(either.topic, 3): where(11)}))
    asked = [place(either.topic, one) for one in range(PARTITION_COUNT)]
    found = first.client.committed(java_class("java.util.HashSet")(array_list(asked)))
    assert [None if found[one] is None else found[one].offset() for one in asked] == [
        None,
        7,
        9,
        11,
    ]
    assert found[asked[1]].metadata() == "seven"
    first.close()
    second = either.member()
    expected = {one for one in ALL if one[1] >= (0, 7, 9, 11)[one[0]]}
    poll_until(lambda: len(second.seen) >= len(expected), second)
    assert set(second.seen) == expected


def test_the_client_commits_by_itself_when_it_is_asked_to(either: Home) -> None:
    first = either.member_that_leaves(enable_auto_commit=True, auto_commit_interval_ms=50)
    poll_until(lambda: set(first.seen) == ALL, first)
    first.close()
    either.produce()
    second = either.member()
    poll_until(lambda: len(second.seen) >= len(ALL), second)
    assert {offset for _, offset in second.seen} == set(range(PER_PARTITION, 2 * PER_PARTITION))


def test_the_client_matches_topics_by_an_expression_of_java(either: Home) -> None:
    pattern = java_class("java.util.regex.Pattern").compile(f"{either.topic}(x|$)")
    member = either.member(pattern)
    poll_until(lambda: set(member.seen) == ALL, member)


@needs_version_4
def test_the_broker_matches_topics_by_an_expression_of_re2(address: str) -> None:
    home = Home(address, **CONSUMER)
    pattern = kafka("clients.consumer.SubscriptionPattern")(f"{home.topic}(x|y)?")
    member = home.member(pattern)
    poll_until(lambda: set(member.seen) == ALL, member)
    create_topic(address, f"{home.topic}x", 1)
    poll_until(lambda: len(member.client.assignment()) == PARTITION_COUNT + 1, member)
    home.close()


@needs_version_4
def test_an_expression_that_re2_does_not_know_is_refused_by_kafkas_name(address: str) -> None:
    home = Home(address, **CONSUMER)
    member = home.member(kafka("clients.consumer.SubscriptionPattern")("(?!not)a"))
    with pytest.raises(kafka("common.errors.InvalidRegularExpression")):
        poll_until(lambda: False, member)
    home.close()


def test_an_assignor_that_the_broker_does_not_know_is_refused_by_kafkas_name(address: str) -> None:
    home = Home(address, **CONSUMER, group_remote_assignor="none such")
    member = home.member()
    with pytest.raises(kafka("common.errors.UnsupportedAssignorException")):
        poll_until(lambda: False, member)
    home.close()


def test_new_partitions_are_read(either: Home) -> None:
    member = either.member()
    poll_until(lambda: share(PARTITION_COUNT, member), member)
    with administrator(either.address) as admin:
        more = kafka("clients.admin.NewPartitions").increaseTo(PARTITION_COUNT + 1)
        wait(admin.createPartitions(java_map({either.topic: more})).all())
    poll_until(lambda: share(PARTITION_COUNT + 1, member), member)


def test_a_group_goes_over_to_the_new_protocol_and_back(address: str) -> None:
    home = Home(address)
    for turn, protocol in enumerate(["classic", "consumer", "classic"], 1):
        member = home.member_that_leaves(group_protocol=protocol)
        poll_until(lambda member=member: len(member.seen) >= len(ALL), member)
        expected = range((turn - 1) * PER_PARTITION, turn * PER_PARTITION)
        assert {offset for _, offset in member.seen} == set(expected)
        member.commit()
        member.close()
        home.produce()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_continues_after_the_broker_was_killed(tmp_path: Path, protocol: str) -> None:
    data = tmp_path / "data"
    with serving(data, *WORDS) as (address, process):
        home = Home(address, group_protocol=protocol)
        members = [home.member(), home.member(group_instance_id="a")]
        poll_until(lambda: share(PARTITION_COUNT, *members), *members)
        poll_until(lambda: seen_by(members) == ALL, *members)
        home.produce()
        poll_until(lambda: len(seen_by(members)) == 2 * len(ALL), *members)
        for member in members:
            member.commit()
            member.seen.clear()
        before = [member.assignment() for member in members]
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
    with serving(None, "-d", str(data), "--listen", address, *WORDS):
        home.produce()
        poll_until(lambda: len(seen_by(members)) == len(ALL), *members)
        assert min(offset for _, offset in seen_by(members)) == 2 * PER_PARTITION
        assert [member.assignment() for member in members] == before, "nobody was fenced"
        home.close()


def seen_by(members: list[JavaConsumer]) -> set[tuple[int, int]]:
    return {one for member in members for one in member.seen}
