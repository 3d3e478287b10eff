"""A node of a KRaft cluster with two log directories, of which one fails while it serves."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import ottla
from ottla.base.errors import UserError
from ottla.client.administration.cluster_status import cluster_status
from ottla.client.refusals import RefusedError
from tests.integration.test_quorum_nodes import ENVIRONMENT, Node, begun, send_and_read
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.ports import free_port
from tests.support.running_cluster import format_node

pytestmark = pytest.mark.slow

BOTH = frozenset((1, 2))


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[tuple[list[Node], list[str]]]:
    """Node 1 is a controller too; node N has the directories `N` and `N-b`."""
    controller = f"127.0.0.1:{free_port()}"
    addresses = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    common = {
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@{controller}",
        "replica.high.watermark.checkpoint.interval.ms": "200",
        # Whose disks have failed is not waited for so long.
        "broker.session.timeout.ms": "600000",
    }
    with ExitStack() as stack:
        made = []
        for number, address in enumerate(addresses, 1):
            first, second = tmp_path / str(number), tmp_path / f"{number}-b"
            for one in (first, second):
                format_node(one, number, "AAECAwQFBgcICQoLDA0ODw")
            listeners, roles = f"PLAINTEXT://{address}", "broker"
            if number == 1:
                listeners, roles = f"{listeners},CONTROLLER://{controller}", "broker,controller"
            own = {"node.id": str(number), "process.roles": roles, "listeners": listeners}
            made.append(begun(stack, first, {**common, **own}, second))
        for node in made:
            node.wait_ready()
        yield made, addresses


def leaders(admin: ottla.Admin) -> dict[int, tuple[int, frozenset[int]]]:
    """Empty while the broker that is asked does not know the topic."""
    try:
        (topic,) = admin.describe_topics(["t"])
    except UserError:
        return {}
    return {one.partition: (one.leader, frozenset(one.in_sync)) for one in topic.partitions}


def are_in_sync(admin: ottla.Admin) -> bool:
    return [isr for _, isr in leaders(admin).values()] == [BOTH] * 4


def test_what_is_in_a_directory_that_fails_moves_and_the_node_serves_the_rest(
    nodes: tuple[list[Node], list[str]], tmp_path: Path
) -> None:
    (_, second), (address, second_address) = nodes
    failing = tmp_path / "2-b"
    with ottla.Admin(address) as admin:
        wait_until(lambda: len(admin.describe_cluster().brokers) == 2)
        admin.create_topic("t", partitions=4, replication_factor=2)
        wait_until(lambda: are_in_sync(admin))
        wait_until(lambda: len([*tmp_path.glob("2/t-*"), *failing.glob("t-*")]) == 4)
        hit = {int(one.name[2:]) for one in failing.glob("t-*")}
        assert 0 < len(hit) < 4
        # No file can be made where a folder is.
        block = failing / "replication-offset-checkpoint.tmp"
        wait_until(lambda: made(block))
        wait_until(
            lambda: all(leaders(admin).get(one) == (1, {1}) for one in hit),
            lambda: f"{leaders(admin)} {second.output.read_text()}",
        )
        assert all(isr == BOTH for one, (_, isr) in leaders(admin).items() if one not in hit)
        assert f"{failing} goes offline until a restart" in second.output.read_text()
        assert send_and_read(second_address, ["a", "b", "c", "d"], "g") == ["a", "b", "c", "d"]
        assert all(leaders(admin)[one] == (1, {1}) for one in hit), (
            "it does not come back by itself"
        )
        block.rmdir()
        assert second.stop() == 0
        second.begin()
        second.wait_ready()
        wait_until(lambda: are_in_sync(admin))
        _check_cordons(admin)
        _check_damage(admin, address, second)
        _check_last_disk(admin, second)


def _check_damage(admin: ottla.Admin, address: str, second: Node) -> None:
    """Consumers miss nothing of a log that was damaged under its leader, and hear of no error; the
    mend that the leader's log tells is one.
    """
    admin.create_topic("damaged", partitions=2, replication_factor=2)

    def led_by() -> dict[int, int]:
        (topic,) = admin.describe_topics(["damaged"])
        return {one.partition: one.leader for one in topic.partitions}

    def are_whole() -> bool:
        (topic,) = admin.describe_topics(["damaged"])
        return all(set(one.in_sync) == BOTH for one in topic.partitions)

    (index,) = (one for one, leader in led_by().items() if leader == 2)
    values = [b"%d" % number for number in range(5)]
    with ottla.Producer(address) as producer:
        for value in values:
            producer.send("damaged", value, partition=index).result(PATIENCE_S)
    wait_until(are_whole)
    homes = (second.directory, *second.more)
    home = next(one for one in homes if (one / f"damaged-{index}").exists())
    folder = home / f"damaged-{index}"
    log = folder / "00000000000000000000.log"
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 1
    with log.open("r+b") as file:
        file.write(content)
    with ottla.Consumer(address) as consumer:
        consumer.assign({("damaged", index): 0})
        assert [one.value for one in consumer.consume(5, timeout=PATIENCE_S)] == values
    assert led_by()[index] == 1
    (place,) = (one for one in cluster_status(admin, ["damaged"]).partitions if one.unread)
    assert (place.place.partition, place.unread) == (index, (2,))
    mend = f"run `ottla log give-up {home} damaged-{index}`"
    assert mend in second.output.read_text()
    assert second.stop() == 0
    folder.rename(home.parent / "damaged")
    command = [sys.executable, "-m", "ottla", "log", "give-up", str(home), f"damaged-{index}"]
    subprocess.run(command, check=True, env=ENVIRONMENT)
    second.begin()
    second.wait_ready()
    wait_until(are_whole)
    assert log.stat().st_size == len(content)


def _check_last_disk(admin: ottla.Admin, node: Node) -> None:
    """A broker without a disk says so, ends, and others lead at once what it has led."""
    admin.elect_leaders()
    wait_until(lambda: 2 in {leader for leader, _ in leaders(admin).values()})
    homes = (node.directory, *node.more)
    blocks = [one / "replication-offset-checkpoint.tmp" for one in homes]
    for block in blocks:
        wait_until(lambda block=block: made(block))
    assert node.process is not None
    assert node.process.wait(PATIENCE_S) == 1
    wait_until(
        lambda: {leader for leader, _ in leaders(admin).values()} == {1},
        lambda: f"{leaders(admin)} {node.output.read_text()}",
    )
    last = node.output.read_text().splitlines()[-1]
    assert last.startswith("ottla: no log directory is left: ")
    assert all(str(one) in last for one in homes)


def _check_cordons(admin: ottla.Admin) -> None:
    """While both directories of node 2 are cordoned, node 1 gets all new partitions."""
    admin.alter_configs(ottla.ResourceKind.BROKER, "2", {"cordoned.log.dirs": "*"})
    wait_until(lambda: _refusal_of_two(admin) == "INVALID_REPLICATION_FACTOR")
    admin.create_topic("cordoned", partitions=4, replication_factor=1)
    wait_until(lambda: "cordoned" in admin.list_topics())
    (topic,) = admin.describe_topics(["cordoned"])
    assert {one.replicas for one in topic.partitions} == {(1,)}
    admin.alter_configs(ottla.ResourceKind.BROKER, "2", {"cordoned.log.dirs": None})
    wait_until(lambda: _refusal_of_two(admin) is None)


def _refusal_of_two(admin: ottla.Admin) -> str | None:
    """Why no topic can have two replicas now."""
    try:
        admin.create_topic("two", partitions=1, replication_factor=2, validate_only=True)
    except RefusedError as error:
        return error.code.name
    return None


def made(block: Path) -> bool:
    """While the checkpoint is written there is a file."""
    try:
        block.mkdir()
    except FileExistsError:
        return False
    return True
