"""Logins by DIGEST-MD5 to a real ZooKeeper, and `zookeeper.set.acl`."""

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("puresasl")
pytest.importorskip("kazoo.client")

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

import ottla
from ottla.base.errors import UserError
from ottla.cli.directory.adopt_sources import read_zookeeper
from ottla.cli.main import cli
from ottla.cli.zookeeper_access import read_zookeeper_access, zookeeper_access
from ottla.client.refusals import RefusedError
from ottla.cluster.access import Access
from ottla.cluster.session import ZooKeeperSession
from ottla.config.broker import broker_config
from ottla.controller.operations import Batch, Create
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.running_cluster import RunningBroker, over
from tests.support.server_properties import write_properties
from tests.support.zookeeper_server import ZooKeeper

pytestmark = pytest.mark.slow

USERS = {"kafka": "of all brokers"}
MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"
OURS, EVERYBODY = ("sasl", "kafka", 31), ("world", "anyone", 1)


@pytest.fixture
def zookeeper(tmp_path: Path) -> Iterator[ZooKeeper]:
    with ZooKeeper(tmp_path / "zookeeper" / "data", users=USERS) as server:
        yield server


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> None:
    (tmp_path / "zookeeper").mkdir()


def jaas(folder: Path, password: str = USERS["kafka"], section: str = "Client") -> Path:
    file = folder / "client.jaas"
    file.write_text(f'{section} {{ {MODULE} required username="kafka" password="{password}"; }};')
    return file


def access_of(folder: Path, **more: str) -> Access:
    settings = {"zookeeper.set.acl": "true", "ottla.zookeeper.jaas.file": str(jaas(folder))}
    return zookeeper_access(broker_config({**settings, **more}), {})


def session_of(
    zookeeper: ZooKeeper, access: Access, lost: Callable[[], None] = lambda: None
) -> ZooKeeperSession:
    return ZooKeeperSession(
        zookeeper.address,
        6000,
        changed=lambda _: None,
        lost=lost,
        suspended=lambda _: None,
        access=access,
    )


def owners(client: Any, path: str) -> list[tuple[str, str, int]]:
    acls, _ = client.get_acls(path)
    return sorted((one.id.scheme, one.id.id, one.perms) for one in acls)


def has_made(admin: ottla.Admin, topic: str) -> bool:
    """The controller may not know the broker yet."""
    with suppress(RefusedError):
        admin.create_topic(topic, replication_factor=1)
    return topic in admin.list_topics()


def test_what_a_broker_makes_belongs_to_it_and_secrets_are_hidden(
    zookeeper: ZooKeeper, tmp_path: Path
) -> None:
    settings = {"zookeeper.set.acl": "true", "ottla.zookeeper.jaas.file": str(jaas(tmp_path))}
    file = write_properties(tmp_path / "access.properties", settings)
    (tmp_path / "password").write_text("pot\n")
    words = ["users", "set", f"zookeeper://{zookeeper.address}", "ana", "--password-file"]
    words += [str(tmp_path / "password"), "--zk-tls-config-file", str(file)]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    broker = RunningBroker(1, tmp_path / "data", over(zookeeper), settings)
    stranger = KazooClient(zookeeper.address)
    with closing(broker), closing(stranger):
        broker.begin()
        broker.wait_ready()
        with ottla.Admin(broker.address) as admin:
            wait_until(lambda: has_made(admin, "orders"))
        stranger.start(timeout=PATIENCE_S)
        for path in ("/brokers/ids/1", "/brokers/topics/orders", "/controller", "/cluster/id"):
            assert owners(stranger, path) == [OURS, EVERYBODY], path
        for path in ("/config/users", "/config/users/ana", "/config/brokers"):
            with pytest.raises(NoAuthError):
                stranger.get(path)
        assert owners(stranger, "/consumers") == [("world", "anyone", 31)]
        assert {
            user
            for user, _ in read_zookeeper(
                zookeeper.address, read_zookeeper_access(file)
            ).credentials
        } == {"ana"}
        assert broker.stop() == 0
        stranger.stop()


def test_a_wrong_password_is_one_line(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    file = jaas(tmp_path, password="guessed")
    session = session_of(
        zookeeper, zookeeper_access(broker_config({"ottla.zookeeper.jaas.file": str(file)}), {})
    )
    with pytest.raises(UserError, match="ZooKeeper rejects the login of kafka") as refused:
        session.start(PATIENCE_S)
    assert str(file) in str(refused.value)
    assert "guessed" not in str(refused.value)


def test_a_session_logs_in_again_once_it_may(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    lost = Event()
    session = session_of(zookeeper, access_of(tmp_path), lost.set)
    session.start(PATIENCE_S)
    try:
        generation = session.generation
        zookeeper.kill()
        zookeeper.let_in({"kafka": "another"})
        zookeeper.start()
        assert lost.wait(PATIENCE_S), "refused, since the password is another"
        zookeeper.kill()
        zookeeper.let_in(USERS)
        zookeeper.start()
        wait_until(lambda: session.generation > generation and creates(session))
    finally:
        session.close()


def creates(session: ZooKeeperSession) -> bool:
    """It may be refused once more in the meantime."""
    with suppress(Exception):
        session.wait_connected(session.generation)
        (made,) = session.execute(Batch(operations=(Create("/back", b""),)))
        return made.is_done
    return False
