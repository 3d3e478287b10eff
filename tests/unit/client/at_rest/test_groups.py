"""The groups of a directory by its files are those that its broker would describe."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from ottla.base.errors import CorruptionError, UnknownNameError
from ottla.client.at_rest.groups import GroupList, GroupsAtRest
from ottla.embedded.log import Log
from tests.support.patience import wait_until

NOW_MS = 1_700_000_100_000
ORDERS = ottla.TopicPartition("orders", 0)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    settings = {"offsets.topic.num.partitions": 2, "log.initial.task.delay.ms": 3_600_000}
    with ottla.open(tmp_path, settings) as log:
        log.create_topic("orders", partitions=2)
        for number in range(10):
            log.append("orders", b"x", partition=0, timestamp_ms=1_700_000_000_000 + number)
        yield log


def seen(groups: GroupList) -> list[tuple[object, ...]]:
    names = [one.group for one in groups.list_groups()]
    return [
        (listed, one, groups.group_lag(one, now_ms=NOW_MS))
        for listed, one in zip(groups.list_groups(), groups.describe_groups(names), strict=True)
    ]


def test_committed_offsets_are_those_of_the_broker(log: Log, tmp_path: Path) -> None:
    log.create_topic("gone")
    with ottla.Admin(log) as admin:
        admin.alter_group_offsets("billing", {ORDERS: 4, ottla.TopicPartition("gone", 0): 0})
        admin.alter_group_offsets("audit", {ORDERS: 10})
        admin.alter_group_offsets("old", {ORDERS: 1})
        admin.delete_groups(["old"])
        log.delete_topic("gone")
        at_rest = GroupsAtRest([str(tmp_path)])
        assert seen(at_rest) == seen(admin)
        assert [one.group for one in at_rest.list_groups(states=["empty"])] == ["audit", "billing"]
        assert not at_rest.list_groups(states=["Stable"])
        (billing,) = at_rest.describe_groups(["billing"])
        lag, uncommitted = at_rest.group_lag(billing, now_ms=NOW_MS)
        assert (lag.lag, lag.late_ms) == (6, 99_996)
        assert (uncommitted.committed, uncommitted.lag) == (None, None)


def test_a_group_without_members_is_the_same_once_the_log_is_closed(
    log: Log, tmp_path: Path
) -> None:
    with ottla.Admin(log) as admin:
        admin.alter_group_offsets("billing", {ORDERS: 4})
    while_open = seen(GroupsAtRest([str(tmp_path)]))
    log.close()
    assert seen(GroupsAtRest([str(tmp_path)])) == while_open


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_are_those_of_the_broker(protocol: str, log: Log, tmp_path: Path) -> None:
    settings = {"group.protocol": protocol, "enable.auto.commit": False}
    with (
        ottla.Consumer(log, group="billing", settings=settings) as consumer,
        ottla.Admin(log) as admin,
    ):
        consumer.subscribe(["orders"])

        def is_stable() -> bool:
            consumer.poll(0.01)
            states = [one.state for one in admin.list_groups()]
            return states == ["Stable"] and len(consumer.assignment()) == 2

        wait_until(is_stable)
        at_rest = GroupsAtRest([str(tmp_path)])
        assert seen(at_rest) == seen(admin)
        (group,) = at_rest.describe_groups(["billing"])
        assert group.kind == protocol
        assert group.members[0].assigned == (ORDERS, ottla.TopicPartition("orders", 1))


def test_what_a_transaction_commits_counts_once_it_is_committed(log: Log, tmp_path: Path) -> None:
    with (
        ottla.Producer(
            log, settings={"transactional.id": "t", "transaction.timeout.ms": 600_000}
        ) as producer,
        ottla.Admin(log) as admin,
    ):
        with producer.transaction():
            producer.send_offsets_to_transaction({ORDERS: 7}, "billing")
            assert seen(GroupsAtRest([str(tmp_path)])) == seen(admin)
        wait_until(admin.list_groups)  # until the marker is there
        assert seen(GroupsAtRest([str(tmp_path)])) == seen(admin)
        (billing,) = GroupsAtRest([str(tmp_path)]).describe_groups(["billing"])
        lag, _ = GroupsAtRest([str(tmp_path)]).group_lag(billing)
        assert lag.committed == 7


def test_a_group_that_is_not_there_is_refused_with_the_nearest(log: Log, tmp_path: Path) -> None:
    with ottla.Admin(log) as admin:
        admin.alter_group_offsets("billing", {ORDERS: 4})
    with pytest.raises(UnknownNameError, match="did you mean billing"):
        GroupsAtRest([str(tmp_path)]).describe_groups(["biling"])


def test_damage_is_named_with_the_command_that_helps(log: Log, tmp_path: Path) -> None:
    with ottla.Admin(log) as admin:
        for offset in range(5):
            admin.alter_group_offsets("billing", {ORDERS: offset})
    log.close()
    held = max(tmp_path.glob("__consumer_offsets-*/*.log"), key=lambda one: one.stat().st_size)
    content = bytearray(held.read_bytes())
    content[100] ^= 1
    held.write_bytes(content)
    with pytest.raises(CorruptionError, match="ottla log check"):
        GroupsAtRest([str(tmp_path)]).list_groups()
