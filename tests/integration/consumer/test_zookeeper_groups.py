"""Groups that are kept in a real ZooKeeper, as Kafka 0.7 designed them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.embedded.log import Log
from tests.support.patience import wait_until
from tests.support.zookeeper_groups import SESSION_MS, Registry, reader
from tests.support.zookeeper_server import zookeeper_client, zookeeper_server

kazoo_client = pytest.importorskip("kazoo.client")
ConnectionLoss = pytest.importorskip("kazoo.exceptions").ConnectionLoss

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with zookeeper_server(tmp_path_factory.mktemp("zookeeper")) as address:
        yield address


@pytest.fixture
def tools(zookeeper: str) -> Iterator[Any]:
    with zookeeper_client(zookeeper) as client:
        yield client


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with ottla.open(tmp_path / "d", {"offsets.topic.num.partitions": 1}) as log:
        log.create_topic("t", partitions=4)
        for number in range(40):
            log.append("t", b"x", partition=number % 4)
        yield log


def settings_of(zookeeper: str) -> dict[str, str]:
    return {
        "group.protocol": "zookeeper",
        "zookeeper.connect": zookeeper,
        "auto.offset.reset": "earliest",
        "session.timeout.ms": str(SESSION_MS),
    }


def test_members_share_partitions_and_take_over_from_one_that_leaves(
    zookeeper: str, tools: Any, log: Log
) -> None:
    address = log.listen("127.0.0.1:0").address
    registry, settings = Registry(tools, "shared"), settings_of(zookeeper)
    with reader(address, "shared", "t", settings) as first:
        wait_until(lambda: len(first.seen) == 40)
        ((one, content),) = registry.nodes("ids").items()
        assert json.loads(content)["subscription"] == {"t": 1}
        assert registry.owners("t") == {f"{one}-0": 4}
        with reader(address, "shared", "t", settings) as second:
            wait_until(
                lambda: sorted(registry.owners("t").values()) == [2, 2],
                lambda: str(registry.nodes("owners/t") | registry.nodes("ids")),
            )
            for number in range(40):
                log.append("t", b"y", partition=number % 4)
            wait_until(lambda: len(first.seen) + len(second.seen) == 80)
            assert len(second.seen) == 20
        wait_until(lambda: registry.owners("t") == {f"{one}-0": 4})
    assert len({*first.seen, *second.seen}) == 80
    assert registry.nodes("ids") == {}, "nodes go with their sessions"
    offsets = registry.nodes("offsets/t")
    assert sorted(offsets.values()) == ["20"] * 4
    assert {name.rpartition("-")[2] for name in offsets} == {"0", "1", "2", "3"}


def test_a_partition_that_is_let_go_as_another_looks_who_has_it_is_claimed_again(
    zookeeper: str, tools: Any, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry, get = Registry(tools, "late"), kazoo_client.KazooClient.get
    (broker,) = ottla.Admin(log).describe_cluster().brokers
    theirs = f"{registry.path}/owners/t/{broker}-3"
    tools.create(theirs, b"~", makepath=True)

    def let_go_and_get(client: Any, path: str, *arguments: Any, **options: Any) -> Any:
        if client is not tools and path == theirs:
            monkeypatch.undo()
            tools.delete(path)
        return get(client, path, *arguments, **options)

    monkeypatch.setattr(kazoo_client.KazooClient, "get", let_go_and_get)
    address = log.listen("127.0.0.1:0").address
    with reader(address, "late", "t", settings_of(zookeeper)) as one:
        wait_until(lambda: len(one.seen) == 40)
        assert list(registry.owners("t").values()) == [4]


@pytest.mark.parametrize("end", ["connection", "session"])
def test_what_was_written_as_a_connection_or_session_ended_is_given_up_when_another_comes(
    end: str, zookeeper: str, tools: Any, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry, create = Registry(tools, end), kazoo_client.KazooClient.create
    other = {"version": 1, "subscription": {"t": 1}, "pattern": "static", "timestamp": "1"}

    def create_and_lose(client: Any, path: str, *arguments: Any, **options: Any) -> None:
        create(client, path, *arguments, **options)
        if client is not tools and path.endswith("-3"):
            monkeypatch.undo()
            tools.create(f"{registry.path}/ids/~", json.dumps(other).encode(), ephemeral=True)
            if end == "session":
                for listener in client.state_listeners.copy():
                    listener("LOST")
            else:
                raise ConnectionLoss

    monkeypatch.setattr(kazoo_client.KazooClient, "create", create_and_lose)
    address = log.listen("127.0.0.1:0").address
    with reader(address, end, "t", settings_of(zookeeper)):
        wait_until(lambda: len(registry.nodes("ids")) == 2)
        wait_until(
            lambda: {name[-1] for name in registry.nodes("owners/t")} == {"0", "1"},
            lambda: f"the half of ~ is left to it: {registry.nodes('owners/t')}",
        )


def test_a_group_continues_where_somebody_left_it_in_zookeeper(
    zookeeper: str, tools: Any, log: Log
) -> None:
    address = log.listen("127.0.0.1:0").address
    (broker,) = ottla.Admin(log).describe_cluster().brokers
    for partition in range(4):
        path = f"/consumers/earlier/offsets/t/{broker}-{partition}"
        tools.create(path, b"7", makepath=True)
    with reader(address, "earlier", "t", settings_of(zookeeper)) as one:
        wait_until(lambda: len(one.seen) == 12)
    assert {offset for _, offset in one.seen} == {7, 8, 9}


def test_a_zookeeper_that_is_not_named_or_not_there_is_one_line(log: Log) -> None:
    with pytest.raises(ottla.UserError, match=r"needs zookeeper\.connect, such as"):
        ottla.Consumer(log, "g", settings={"group.protocol": "zookeeper"})
