"""What keeps `ottla serve` out of a cluster, said in one line before anything is led."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from ottla.cli.main import cli
from ottla.storage.files.filenames import META_PROPERTIES
from tests.support.ports import free_port

pytest.importorskip("kazoo.client")


def refusal(directory: Path, *settings: str) -> str:
    port = free_port()
    connect = f"127.0.0.1:{free_port()}"
    given = [f"zookeeper.connect={connect}", "zookeeper.connection.timeout.ms=100", *settings]
    options = [word for one in given for word in ("-o", one)]
    arguments = ["serve", str(directory), "--listen", f"127.0.0.1:{port}", *options]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 2, result.output
    lines = [one for one in result.stderr.splitlines() if one.startswith("ottla: ")]
    assert len(lines) == 1, result.stderr
    return lines[0].replace(connect, "HOST:PORT")


@pytest.mark.slow
def test_a_zookeeper_that_cannot_be_reached_is_named_and_nothing_is_made(tmp_path: Path) -> None:
    said = refusal(tmp_path / "data", "broker.id=1")
    assert said.startswith("ottla: zookeeper.connect=HOST:PORT: ZooKeeper cannot be reached (")
    assert said.endswith(
        "); start it, or name another one; a broker alone needs none: -o zookeeper.connect= "
        "leaves it out"
    )
    assert not (tmp_path / "data" / META_PROPERTIES).exists()


def test_a_truststore_for_zookeeper_that_is_none_is_named(tmp_path: Path) -> None:
    given = "zookeeper.ssl.client.enable=true", "zookeeper.ssl.truststore.location=missing.pem"
    said = refusal(tmp_path / "data", *given)
    assert "zookeeper.ssl.truststore.location: " in said
    assert "missing.pem" in said


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("inter.broker.protocol.version=4.0", "set one from 0.10.0 to 3.9"),
        ("broker.id.generation.enable=false", "broker.id is not given"),
        ("zookeeper.set.acl=true", "needs a login to ZooKeeper"),
        ("zookeeper.ssl.crl.enable=true", "certificates are not checked for revocation"),
        (
            "security.inter.broker.protocol=SASL_SSL",
            "no listener has that protocol; set inter.broker.listener.name to the one over which "
            "brokers reach each other (PLAINTEXT)",
        ),
    ],
)
def test_a_setting_with_which_no_broker_joins_is_refused(
    tmp_path: Path, setting: str, said: str
) -> None:
    assert said in refusal(tmp_path / "data", setting)
