"""`zookeeper.ssl.*` with a real ZooKeeper that lets in who shows a certificate, and nobody else."""

import ssl
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("cryptography")
pytest.importorskip("kazoo.client")

import ottla
from ottla.base.errors import UserError
from ottla.cli.directory.adopt_sources import read_zookeeper
from ottla.cli.main import cli
from ottla.cli.zookeeper_access import read_zookeeper_access, zookeeper_tls
from ottla.client.refusals import RefusedError
from ottla.cluster.access import Access, NewContext, SecuredConnections
from ottla.cluster.session import ZooKeeperSession
from ottla.config.broker import broker_config
from tests.support.certificates import Authority, pkcs12_store
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.running_cluster import RunningBroker, over
from tests.support.server_properties import write_properties
from tests.support.zookeeper_server import ZooKeeper, ZooKeeperTls

pytestmark = pytest.mark.slow

AUTHORITY = Authority()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> ZooKeeperTls:
    folder = tmp_path_factory.mktemp("files")
    return ZooKeeperTls(
        server=AUTHORITY.server().write(folder / "server.pem"),
        client=AUTHORITY.client("broker").write(folder / "client.pem"),
        authority=AUTHORITY.write(folder / "ca.pem"),
    )


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory, files: ZooKeeperTls) -> Iterator[ZooKeeper]:
    with ZooKeeper(tmp_path_factory.mktemp("zookeeper") / "data", tls=files) as server:
        yield server


def contexts(files: ZooKeeperTls, **changed: str) -> NewContext:
    names = {name.replace("_", "."): value for name, value in changed.items()}
    found = zookeeper_tls(broker_config({**files.settings, **names}))
    assert found is not None
    return found


def connect(zookeeper: ZooKeeper, tls: NewContext) -> ssl.SSLSocket:
    host, _, port = zookeeper.address.partition(":")
    return SecuredConnections(tls).open((host, int(port)), host, PATIENCE_S)


def has_made(admin: ottla.Admin, topic: str) -> bool:
    """The controller may not know the broker yet."""
    with suppress(RefusedError):
        admin.create_topic(topic, replication_factor=1)
    return topic in admin.list_topics()


def test_a_broker_joins_and_commands_reach_the_same_registries(
    zookeeper: ZooKeeper, files: ZooKeeperTls, tmp_path: Path
) -> None:
    broker = RunningBroker(1, tmp_path / "data", over(zookeeper), files.settings)
    with closing(broker):
        broker.begin()
        broker.wait_ready()
        with ottla.Admin(broker.address) as admin:
            wait_until(lambda: has_made(admin, "orders"))
        (tmp_path / "password").write_text("pot\n")
        file = write_properties(tmp_path / "tls.properties", files.settings)
        words = ["users", "set", f"zookeeper://{zookeeper.address}", "ana", "--password-file"]
        words += [str(tmp_path / "password"), "--zk-tls-config-file", str(file)]
        result = CliRunner().invoke(cli, words)
        assert result.exit_code == 0, result.output
        found = read_zookeeper(zookeeper.address, read_zookeeper_access(file))
        assert "orders" in found.topics
        assert {user for user, _ in found.credentials} == {"ana"}
        assert broker.stop() == 0


def test_a_keystore_may_be_pkcs12(zookeeper: ZooKeeper, files: ZooKeeperTls) -> None:
    store = files.client.with_suffix(".p12")
    store.write_bytes(pkcs12_store(AUTHORITY.client("broker"), "sesame", AUTHORITY))
    of_store = {"location": str(store), "password": "sesame", "type": "PKCS12"}
    changed = {f"zookeeper_ssl_keystore_{name}": value for name, value in of_store.items()}
    with connect(zookeeper, contexts(files, **changed)) as connection:
        assert connection.version() == "TLSv1.3"
    with pytest.raises(UserError, match=r"zookeeper\.ssl\.keystore\.location") as refused:
        contexts(files, **{**changed, "zookeeper_ssl_keystore_password": "guessed"})
    assert "guessed" not in str(refused.value)


def test_a_zookeeper_of_another_authority_or_host_is_not_believed(
    zookeeper: ZooKeeper, files: ZooKeeperTls, tmp_path: Path
) -> None:
    another = str(Authority().write(tmp_path / "another.pem"))
    stranger = contexts(files, zookeeper_ssl_truststore_location=another)
    with pytest.raises(ssl.SSLCertVerificationError):
        connect(zookeeper, stranger)
    port = int(zookeeper.address.partition(":")[2])
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        SecuredConnections(contexts(files)).open(("localhost", port), "zk.example", PATIENCE_S)
    unnamed = contexts(files, zookeeper_ssl_endpoint_identification_algorithm="")
    SecuredConnections(unnamed).open(("localhost", port), "zk.example", PATIENCE_S).close()


def test_a_broker_says_why_it_does_not_believe_zookeeper(
    zookeeper: ZooKeeper, files: ZooKeeperTls, tmp_path: Path
) -> None:
    another = str(Authority().write(tmp_path / "another.pem"))
    tls = contexts(files, zookeeper_ssl_truststore_location=another)
    said, timeout_s = "", 0.5
    while "certificate verify failed" not in said:  # on a slow host there is no reason at first
        assert timeout_s < PATIENCE_S, said
        session = ZooKeeperSession(
            zookeeper.address, 9000,
            changed=lambda _: None, lost=lambda: None, suspended=lambda _: None,
            access=Access(tls=tls),
        )  # fmt: skip
        with pytest.raises(UserError, match="ZooKeeper cannot be reached") as refused:
            session.start(timeout_s)
        said, timeout_s = str(refused.value), timeout_s * 2


def test_without_tls_nothing_changes() -> None:
    assert zookeeper_tls(broker_config({})) is None
    assert read_zookeeper_access(None) == Access()
