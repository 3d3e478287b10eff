"""`ottla adopt --zookeeper` asks a real ZooKeeper, the one that comes with PySpark."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from ottla.base.errors import UserError
from ottla.base.extras import install_command
from ottla.base.files import OsFileSystem
from ottla.broker.configs.settings import ConfigSource
from ottla.cli.directory.adopt_sources import read_zookeeper
from ottla.cli.main import main
from tests.support.metadata import lose_metadata
from tests.support.serving import open_broker
from tests.support.zookeeper_server import zookeeper_client, zookeeper_server
from tests.unit.cli.directory.test_adopt import run

pytest.importorskip("kazoo.client")

pytestmark = pytest.mark.slow

SETTINGS = {
    "/kafka/config/topics/kept": b'{"version":1,"config":{"retention.ms":"-1"}}',
    "/kafka/config/topics/keyed": b'{"version":1,"config":{"cleanup.policy":"compact"}}',
    "/kafka/config/users/alice": b'{"version":1,"config":{"producer_byte_rate":"1048576"}}',
    "/kafka/config/brokers/<default>": b'{"version":1,"config":{"log.retention.ms":"-1"}}',
    "/kafka/config/brokers/1": b'{"version":1,"config":{"num.io.threads":"6"}}',
    "/kafka/config/brokers/2": b'{"version":1,"config":{"num.io.threads":"7"}}',
    "/kafka/latest_producer_id_block": b'{"version":1,"broker":0,"block_start":"1000",'
    b'"block_end":"1999"}',
    "/kafka/brokers/topics/kept": b"{}",
    "/kafka/brokers/topics/keyed": b"{}",
    "/kafka/brokers/topics/plain": b"{}",
}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A ZooKeeper with the nodes of a Kafka cluster under `/kafka`."""
    with zookeeper_server(tmp_path_factory.mktemp("zookeeper")) as address:
        with zookeeper_client(address) as client:
            for path, content in SETTINGS.items():
                client.create(path, content, makepath=True)
        yield address


def test_topics_get_the_settings_that_zookeeper_has(address: str, tmp_path: Path) -> None:
    with ottla.open(tmp_path / "d") as log:
        for topic in ("kept", "keyed", "plain", "elsewhere"):
            log.create_topic(topic)
    lose_metadata(OsFileSystem(), str(tmp_path / "d"))
    result = run(tmp_path / "d", "--zookeeper", f"{address}/kafka")
    assert result.exit_code == 1
    assert "1 topic left unconfirmed: elsewhere" in result.output
    assert (
        "2 settings of brokers, 1 quota, 0 users with passwords, 0 ACLs, 0 delegation tokens, and "
        "that the next producer id is 2000" in result.output
    )
    assert "not taken over: the settings of other brokers (2)" in result.output
    broker = open_broker(tmp_path / "d")
    assert broker.producer_ids.allocate() == 2000
    found = {topic.name: topic.overrides for topic in broker.topics}
    assert list(broker.unconfirmed.unknown) == ["elsewhere"]
    assert broker.topics.get("plain").config.retention_ms == -1
    assert broker.settings.sources[ConfigSource.BROKER] == {"num.io.threads": "6"}
    broker.close()
    assert found == {
        "kept": {"retention.ms": "-1"},
        "keyed": {"cleanup.policy": "compact"},
        "plain": {},
        "elsewhere": {},
    }


def test_a_missing_chroot_is_named(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["adopt", str(tmp_path), "--zookeeper", address])
    assert "add the chroot to the address" in capsys.readouterr().err


def test_without_kazoo_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kazoo.client", None)
    with pytest.raises(UserError, match=re.escape(install_command("zookeeper"))):
        read_zookeeper("127.0.0.1:1")
