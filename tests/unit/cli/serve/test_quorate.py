"""What keeps `ottla serve` out of a KRaft cluster, or ends its part in it: one line each."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from ottla.base.clock import SystemClock
from ottla.base.errors import UserError
from ottla.cli.main import cli
from ottla.cli.serve.quorate import Announcement, Quorate
from ottla.config.broker import broker_config
from ottla.storage.files.filenames import META_PROPERTIES

ROLES = {
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
}


def test_a_login_with_which_no_controller_is_reached_is_refused_before_anything_is_made(
    tmp_path: Path,
) -> None:
    given = {
        **ROLES,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAINE",
    }
    options = [word for name, value in given.items() for word in ("-o", f"{name}={value}")]
    result = CliRunner().invoke(cli, ["serve", str(tmp_path), *options])
    assert result.exit_code == 2, result.output
    (line,) = [one for one in result.stderr.splitlines() if one.startswith("ottla: ")]
    assert "PLAINE" in line
    assert not (tmp_path / META_PROPERTIES).exists()


def test_controllers_that_log_in_with_what_only_their_leader_knows_are_refused(
    tmp_path: Path,
) -> None:
    login = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="b"'
    given = {
        **ROLES,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "sasl.mechanism.controller.protocol": "SCRAM-SHA-256",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "listener.name.controller.scram-sha-256.sasl.jaas.config": f'{login} password="s";',
        "log.dirs": str(tmp_path),
    }
    several = {**given, "controller.quorum.bootstrap.servers": "127.0.0.1:9093,127.0.0.1:9193"}
    with pytest.raises(UserError, match=r"^sasl\.mechanism\.controller\.protocol=SCRAM"):
        Quorate(broker_config(several), [str(tmp_path)], SystemClock())
    assert not (tmp_path / META_PROPERTIES).exists()
    Quorate(broker_config(given), [str(tmp_path)], SystemClock())


def test_what_ends_a_node_is_said_once_when_it_has_stopped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    paths = [str(tmp_path)]
    one = Quorate(broker_config({**ROLES, "log.dirs": paths[0]}), paths, SystemClock())
    one._failed(UserError("the cluster has levels that nobody knows"))
    one._failed(UserError("and more"))
    with pytest.raises(UserError, match="levels that nobody knows"):
        one.close()
    assert not [each for each in caplog.records if each.levelname in ("WARNING", "ERROR")]


def test_a_new_node_whose_settings_name_another_makes_no_cluster_of_its_own(
    tmp_path: Path,
) -> None:
    given = {**ROLES, "controller.quorum.bootstrap.servers": "127.0.0.1:9193"}
    paths = [str(tmp_path)]
    with pytest.raises(UserError, match="not formatted for a KRaft cluster"):
        Quorate(broker_config({**given, "log.dirs": paths[0]}), paths, SystemClock())
    assert not (tmp_path / META_PROPERTIES).exists()


def test_a_damaged_identity_is_named_and_not_made_anew(tmp_path: Path) -> None:
    damaged = tmp_path / META_PROPERTIES
    damaged.write_text("version=1\nnode.id=x\n")
    paths = [str(tmp_path)]
    with pytest.raises(UserError, match=r"meta\.properties at byte 0: .*restore the file"):
        Quorate(broker_config({**ROLES, "log.dirs": paths[0]}), paths, SystemClock())
    assert damaged.read_text() == "version=1\nnode.id=x\n"


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        (None, "in 10 s; it listens, and serves clients once a majority of the controllers is up"),
        ("it is doubled", "in 10 s: it is doubled; it listens, and serves clients once it is ad"),
    ],
)
def test_a_broker_that_waits_for_controllers_says_why_if_they_have_said_it(
    refusal: str | None, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    made: list[bool] = []
    announcement = Announcement(lambda: refusal)
    announcement.expect(lambda: made.append(True))
    announcement._give_up()
    assert made == [True]
    assert said in caplog.text
