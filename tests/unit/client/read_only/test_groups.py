"""The groups of a directory by its files are those that its broker would describe."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import ottla
from ottla.base.errors import UnknownNameError, UserError
from ottla.cli.main import cli
from ottla.coordinator.placement import partition_for
from ottla.embedded.log import Log
from tests.support.patience import wait_until
from tests.support.read_only import reading

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


def seen(groups: ottla.Admin) -> list[tuple[object, ...]]:
    names = [one.group for one in groups.list_groups()]
    return [
        (listed, one, groups.group_lag(one, now_ms=NOW_MS))
        for listed, one in zip(groups.list_groups(), groups.describe_groups(names), strict=True)
    ]


def test_committed_offsets_are_those_of_the_broker(log: Log, tmp_path: Path) -> None:
    log.create_topic("gone")
    with ottla.Admin(log) as admin:
        admin.alter_group_offsets("billing", {ORDERS: 4, ottla.TopicPartition("gone", 0): 0})
        admin.alter_group_offsets("search", {ORDERS: 10})
        admin.alter_group_offsets("old", {ORDERS: 1})
        admin.delete_groups(["old"])
        log.delete_topic("gone")
        at_rest = reading(tmp_path)
        assert seen(at_rest) == seen(admin)
        assert [one.group for one in at_rest.list_groups(states=["empty"])] == ["billing", "search"]
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
    while_open = seen(reading(tmp_path))
    log.close()
    assert seen(reading(tmp_path)) == while_open


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
        at_rest = reading(tmp_path)
        assert seen(at_rest) == seen(admin)
        (group,) = at_rest.describe_groups(["billing"])
        assert group.kind == protocol
        assert group.members[0].assigned == (ORDERS, ottla.TopicPartition("orders", 1))


@pytest.mark.slow
def test_what_a_transaction_commits_counts_once_it_is_committed(log: Log, tmp_path: Path) -> None:
    with (
        ottla.Producer(
            log, settings={"transactional.id": "t", "transaction.timeout.ms": 600_000}
        ) as producer,
        ottla.Admin(log) as admin,
    ):
        with producer.transaction():
            producer.send_offsets_to_transaction({ORDERS: 7}, "billing")
            assert seen(reading(tmp_path)) == seen(admin)
        wait_until(admin.list_groups)  # until the marker is there
        assert seen(reading(tmp_path)) == seen(admin)
        (billing,) = reading(tmp_path).describe_groups(["billing"])
        lag, _ = reading(tmp_path).group_lag(billing)
        assert lag.committed == 7


def test_a_group_that_is_not_there_is_refused_with_the_nearest(log: Log, tmp_path: Path) -> None:
    with ottla.Admin(log) as admin:
        admin.alter_group_offsets("billing", {ORDERS: 4})
    with pytest.raises(UnknownNameError, match="did you mean billing"):
        reading(tmp_path).describe_groups(["biling"])


def damage(path: Path, topic: str, change: Callable[[bytes], bytes]) -> Path:
    """Changes the largest log of a topic."""
    held = max(path.glob(f"{topic}-*/*.log"), key=lambda one: one.stat().st_size)
    held.write_bytes(change(held.read_bytes()))
    return held


def flipped(content: bytes) -> bytes:
    """With another bit in the last batch."""
    return content[:-5] + bytes([content[-5] ^ 1]) + content[-4:]


def shortened(content: bytes) -> bytes:
    """Without the last batch, which has one record as all others have."""
    start, position = 0, 0
    while position < len(content):
        size = 12 + int.from_bytes(content[position + 8 : position + 12], "big")
        start, position = position, position + size
    return content[:start]


def emptied(content: bytes) -> bytes:
    return b""


@pytest.mark.parametrize("change", [flipped, shortened, emptied])
def test_of_damaged_groups_the_rest_is_shown_and_what_is_lost_is_named(
    change: Callable[[bytes], bytes], log: Log, tmp_path: Path
) -> None:
    # `search` and `billing` are in two partitions.
    with ottla.Admin(log) as admin:
        admin.alter_group_offsets("search", {ORDERS: 9})
        for offset in range(5):
            admin.alter_group_offsets("billing", {ORDERS: offset})
    log.close()
    held = damage(tmp_path, "__consumer_offsets", change)
    with pytest.raises(UserError, match="ottla log check"):
        reading(tmp_path).list_groups()
    lost: list[str] = []
    groups = reading(tmp_path, lost.append)
    found = {
        one.group: groups.group_lag(one, now_ms=NOW_MS)[0].committed
        for one in groups.describe_groups([each.group for each in groups.list_groups()])
    }
    (line,) = lost
    assert str(held.parent) in line
    if change is emptied:
        assert found == {"search": 9}
        assert f"nothing is shown of the groups that {held.parent.name} keeps" in line
    else:
        assert found == {"search": 9, "billing": 3}
        assert "offset 4 cannot be read" in line
        assert ": billing; `ottla groups describe`" in line
        assert f"`ottla log repair {tmp_path}`" in line
    for arguments, names in (
        (["list", str(tmp_path), "--quiet"], sorted(found)),
        (["describe", str(tmp_path), "search", "nobody", "--quiet"], ["search"]),
    ):
        said = CliRunner().invoke(cli, ["groups", *arguments])
        assert said.exit_code == 1
        assert said.stdout.split() == names
        assert f"warning: {line}" in said.stderr
    assert "warning: nobody is not among the groups that are left" in said.stderr


def test_a_lost_partition_costs_its_own_groups_only(log: Log, tmp_path: Path) -> None:
    with ottla.Admin(log) as admin:
        for group in ("search", "billing"):
            admin.alter_group_offsets(group, {ORDERS: 4})
    log.close()
    billing = partition_for("billing", 2)
    assert billing != partition_for("search", 2)
    shutil.rmtree(tmp_path / f"__consumer_offsets-{billing}")
    lost: list[str] = []
    assert [one.group for one in reading(tmp_path, lost.append).list_groups()] == ["search"]
    assert f"__consumer_offsets-{billing} is not there" in lost[0]
