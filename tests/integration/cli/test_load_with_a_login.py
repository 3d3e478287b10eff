"""`ottla load` and `ottla audit` of a broker that asks for a login, by `--source-config`."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ottla.cli.main import cli
from ottla.table import dataset
from ottla.testing import LocalBroker

pytest.importorskip("deltalake")
pytestmark = pytest.mark.slow


def ottla_command(*words: object) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words])


def test_a_load_and_an_audit_log_in_as_a_file_says(tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    users = {"ana": "pot;kettle"}
    with LocalBroker(tmp_path / "broker", security="SASL_PLAINTEXT", users=users) as broker:
        for topic in ("orders", "shop.orders"):
            broker.create_topic(topic)
            broker.produce(topic, "tea")
        # As files of clients have it, with an address that is not the source's.
        settings = {**broker.client_settings("ana"), "bootstrap.servers": "elsewhere:1"}
        config.write_text("".join(f"{name}={text}\n" for name, text in settings.items()))
        login = ("--source-config", config)
        load = ("load", broker.address, "--engine", "local")
        refused = ottla_command(*load, "orders", "--into", tmp_path / "none")
        assert refused.exit_code != 0
        done = ottla_command(*load, "orders", "--into", tmp_path / "orders", *login)
        assert done.exit_code == 0, done.output
        done = ottla_command(*load, "--pattern", "shop[.].*", "--into", tmp_path, *login)
        assert done.exit_code == 0, done.output
        for topic in ("orders", "shop.orders"):
            table = tmp_path / topic
            assert dataset(str(table)).count_rows() == 1
            audited = ottla_command("audit", broker.address, topic, "--table", table, *login)
            assert audited.exit_code == 0, audited.output
    missing = ottla_command(*load, "orders", "--into", tmp_path / "x", "--source-config", "missing")
    assert missing.exit_code == 2
    assert missing.stderr.startswith("ottla: missing: No such file or directory; name a file")


@pytest.mark.parametrize("setting", ["security.protocol=SASL_SSL", "bootstrap.servers=kafka:9092"])
def test_a_clients_settings_are_refused_where_files_are_read(tmp_path: Path, setting: str) -> None:
    config = tmp_path / "client.properties"
    config.write_text(f"{setting}\n")
    (tmp_path / "data").mkdir()
    for command in ("load", "audit"):
        into = "--into" if command == "load" else "--table"
        place = (command, tmp_path / "data", "orders", into, tmp_path / "table")
        refused = ottla_command(*place, "--source-config", config)
        assert refused.exit_code == 2
        assert "data is not HOST:PORT of a broker; leave out the client settings" in refused.stderr
