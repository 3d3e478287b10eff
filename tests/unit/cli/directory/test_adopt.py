"""`ottla adopt`: topics of another Kafka get the settings that a person says, and none before."""

import json
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import ottla
from ottla.base.errors import UserError
from ottla.base.principal import Principal
from ottla.base.scram import ScramCredential
from ottla.base.timestamps import Timestamps
from ottla.broker.configs.config_changes import Alteration, ConfigChange
from ottla.broker.configs.password_encoder import Encryption, PasswordEncoder
from ottla.broker.configs.settings import ConfigSource
from ottla.broker.quotas.quota_changes import QuotaAlteration
from ottla.cli.directory.adopt import adopt_command
from ottla.cli.directory.adopt_sources import (
    ClusterSettings,
    cluster_settings_of,
    read_topic_settings,
    topic_settings_of,
)
from ottla.cli.doctor.doctor_command import doctor_command
from ottla.cli.explain.compaction import compaction_command
from ottla.cli.explain.retention import retention_command
from ottla.cli.main import main
from ottla.embedded.log import Log
from ottla.metadata.acls import (
    Acl,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from ottla.metadata.tokens import DelegationToken
from ottla.zookeeper.access import UnknownEntry, encode_acls, encode_token
from ottla.zookeeper.entities import ScramCredential as ScramOfZooKeeper
from ottla.zookeeper.entities import encode_scram
from tests.support import SHARED
from tests.support.serving import open_broker

PASSWORD = ScramOfZooKeeper(salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096)
CREDENTIAL = ScramCredential(salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096)
ACL = Acl(
    ResourcePattern(ResourceType.TOPIC, PatternType.LITERAL, "kept"),
    Entry("User:alice", "*", Operation.READ, Permission.ALLOW),
)

YEARS_MS = 10 * 365 * 24 * 3600 * 1000
ZNODES = (SHARED or Path("none")) / "recorded" / "zookeeper" / "znodes-1-all-up.json"
ZOOKEEPER_PROPERTIES = "broker.id=1\nversion=0\ncluster.id=1WIEWAEjSraX4XZAFJCJJw\n"

DESCRIBED = """\
Dynamic configs for topic keyed are:
  cleanup.policy=compact sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact, \
DEFAULT_CONFIG:log.cleanup.policy=delete}
Dynamic configs for topic plain are:
All configs for topic kept are:
  retention.ms=-1 sensitive=false synonyms={STATIC_BROKER_CONFIG:log.retention.ms=-1, \
DEFAULT_CONFIG:log.retention.hours=168}
  segment.ms=604800000 sensitive=false synonyms={DEFAULT_CONFIG:log.roll.hours=168}
"""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(adopt_command, [*map(str, arguments)], catch_exceptions=False)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """As a broker of a ZooKeeper cluster leaves it: three topics with a record that is old."""
    path = tmp_path / "d"
    with ottla.open(path) as log:
        for topic in ("kept", "keyed", "plain"):
            log.create_topic(topic)
            log.append(topic, b"value", key=b"key", timestamp_ms=1_000_000_000_000)
    shutil.rmtree(path / "__cluster_metadata-0")
    for own in [*path.glob("ottla-*"), path / "bootstrap.checkpoint"]:
        own.unlink()
    for own in path.glob("*/ottla-*"):
        own.unlink()
    (path / "meta.properties").write_text(ZOOKEEPER_PROPERTIES)
    return path


def overrides(directory: Path) -> dict[str, Mapping[str, str]]:
    broker = open_broker(directory)
    found = {topic.name: topic.overrides for topic in broker.topics}
    unknown = broker.unconfirmed.unknown
    broker.close()
    return {name: one for name, one in found.items() if name not in unknown}


def test_nothing_of_a_zookeeper_clusters_directory_goes_before_somebody_confirms(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        caplog.clear()
        broker = open_broker(directory)
        for number in range(1, 6):
            now_ms = 1_000_000_000_000 + YEARS_MS
            broker.scheduler.run_due(Timestamps(now_ms=now_ms, monotonic_ms=number * 400_000.0))
        starts = {one.name: one.partitions[0].log.log_start_offset for one in broker.topics}
        broker.close()
        assert starts == {"kept": 0, "keyed": 0, "plain": 0}
        lines = [line for line in caplog.messages if "ottla adopt" in line]
        assert len(lines) == 1
        assert "topics kept, keyed, plain" in lines[0]
        assert "ZooKeeper" in lines[0]


def test_without_a_terminal_it_shows_what_would_go_and_asks_for_yes(directory: Path) -> None:
    result = run(directory)
    assert result.exit_code == 1
    assert "kept: cleanup.policy=delete, retention.ms=604800000" in result.output
    assert "76 of them deleted at once" in result.output
    assert "--yes confirms" in result.output
    assert overrides(directory) == {}


def test_yes_confirms_the_defaults(directory: Path) -> None:
    result = run(directory, "--yes")
    assert result.exit_code == 0
    assert overrides(directory) == {"kept": {}, "keyed": {}, "plain": {}}
    assert "nothing is to be confirmed" in run(directory).output


def test_a_file_gives_topics_their_settings_and_leaves_the_others(
    directory: Path, tmp_path: Path
) -> None:
    file = tmp_path / "topics.json"
    file.write_text('{"kept": {"retention.ms": -1}, "keyed": {"cleanup.policy": ["compact"]}}')
    result = run(directory, "--config", file, "--json")
    assert result.exit_code == 1
    summary = json.loads(result.output.splitlines()[-1])
    assert summary == {"type": "summary", "left": ["plain"]}
    assert overrides(directory) == {
        "kept": {"retention.ms": "-1"},
        "keyed": {"cleanup.policy": "compact"},
    }
    assert run(directory, "--yes").exit_code == 0
    assert overrides(directory)["kept"] == {"retention.ms": "-1"}


def test_what_kafka_configs_prints_is_read(tmp_path: Path) -> None:
    file = tmp_path / "described.txt"
    file.write_text(DESCRIBED)
    assert read_topic_settings(file) == {
        "keyed": {"cleanup.policy": "compact"},
        "plain": {},
        "kept": {"retention.ms": "-1"},
    }


@pytest.mark.parametrize("text", ["{", "[]", '{"t": 5}', '{"t": {"retention.ms": null}}', "hello"])
def test_a_file_that_is_none_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "topics.json"
    file.write_text(text)
    with pytest.raises(UserError) as caught:
        read_topic_settings(file)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_setting_that_decides_and_means_nothing_here_leaves_the_topic_as_it_is(
    directory: Path, tmp_path: Path
) -> None:
    file = tmp_path / "topics.json"
    settings = {"cleanup.policy": "shred", "retention.ms": "soon"}
    file.write_text(json.dumps({"kept": settings, "plain": {"segment.ms": "0"}}))
    result = run(directory, "--config", file)
    assert result.exit_code == 1
    assert "left unchanged, since they have no effect here: cleanup.policy=shred" in result.output
    assert "not taken over, they have no effect here: segment.ms=0" in result.output
    assert overrides(directory) == {"plain": {}}


def test_a_topic_that_was_tiered_stays_so_without_a_tier(directory: Path, tmp_path: Path) -> None:
    file = tmp_path / "topics.json"
    file.write_text(json.dumps({"plain": {"remote.storage.enable": "true"}}))
    run(directory, "--config", file)
    assert overrides(directory) == {"plain": {"remote.storage.enable": "true"}}


def test_a_directory_in_use_and_one_that_is_not_there_are_named(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ottla.open(directory), pytest.raises(SystemExit):
        main(["adopt", str(directory)])
    assert "in use" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["adopt", str(directory / "none")])
    assert "there is no such directory" in capsys.readouterr().err


def test_doctor_and_explain_say_so(directory: Path) -> None:
    with ottla.open(directory):
        pass
    told = CliRunner().invoke(doctor_command, [str(directory), "--json"])
    kinds = [json.loads(line) for line in told.output.splitlines()]
    complaint = next(one for one in kinds if one.get("kind") == "settings_not_adopted")
    assert complaint["fix"] == f"stop the broker, and run ottla adopt {directory}"
    assert told.exit_code == 1
    asked = ["kept", "--data-dir", str(directory)]
    for explain in (retention_command, compaction_command):
        text = CliRunner().invoke(explain, asked).output
        assert "nothing of topic kept is deleted or compacted, since the settings are in" in text
        assert f"run ottla adopt {directory}" in text
        fields = json.loads(CliRunner().invoke(explain, [*asked, "--json"]).output.splitlines()[0])
        assert "settings are in" in fields["why_nothing_goes"]
    run(directory, "--yes")
    for explain in (retention_command, compaction_command):
        assert "nothing of topic" not in CliRunner().invoke(explain, asked).output


def test_an_unknown_topic_is_not_compacted_when_told_to(directory: Path) -> None:
    with ottla.open(directory, {"log.cleanup.policy": "compact"}) as log:
        assert isinstance(log, Log)
        with pytest.raises(UserError, match="ottla adopt"):
            log.compact("keyed")


def test_a_topic_that_is_deleted_and_made_again_is_known(directory: Path) -> None:
    with ottla.open(directory) as log:
        log.delete_topic("plain")
        log.create_topic("plain")
    assert overrides(directory) == {"plain": {}}


class RecordedZooKeeper:
    """What a ZooKeeper under three Kafka brokers held."""

    def __init__(self) -> None:
        nodes: list[dict[str, Any]] = json.loads(ZNODES.read_text())
        self.data = {node["path"]: node["data"] for node in nodes}

    def exists(self, path: str) -> bool:
        return path in self.data

    def get_children(self, path: str) -> list[str]:
        return [one.rpartition("/")[2] for one in self.data if one.rpartition("/")[0] == path]

    def get(self, path: str) -> tuple[bytes | None, object]:
        data = self.data[path]
        return (None if data is None else data.encode()), None


@pytest.mark.skipif(not ZNODES.exists(), reason="needs the recorded znodes")
def test_zookeeper_says_the_settings_of_every_topic() -> None:
    zookeeper = RecordedZooKeeper()
    found = topic_settings_of(zookeeper)
    assert found["alpha"] == {"min.insync.replicas": "2", "retention.ms": "-1"}
    assert found["beta"] == {"cleanup.policy": "compact", "segment.bytes": "1048576"}
    del zookeeper.data["/config/topics/gamma"]
    assert topic_settings_of(zookeeper)["gamma"] == {}
    zookeeper.data["/config/topics/alpha"] = "{"
    with pytest.raises(ValueError, match="/config/topics/alpha is not what Kafka writes there"):
        topic_settings_of(zookeeper)
    zookeeper.data = {"/": None}
    with pytest.raises(ValueError, match="chroot"):
        topic_settings_of(zookeeper)


@pytest.mark.skipif(not ZNODES.exists(), reason="needs the recorded znodes")
def test_zookeeper_says_quotas_producer_ids_users_and_acls() -> None:
    zookeeper = RecordedZooKeeper()
    found = cluster_settings_of(zookeeper)
    assert found.topics == topic_settings_of(zookeeper)
    assert found.quotas == {(("user", "alice"),): {"producer_byte_rate": 1048576.0}}
    assert (found.next_producer_id, found.credentials, found.acls) == (2000, {}, ())
    assert (found.default_configs, found.broker_configs) == ({}, {"1": {"num.io.threads": "6"}})
    assert (found.tokens, found.left_out) == ({}, ())
    for path, config in {
        "users/alice": {"SCRAM-SHA-256": encode_scram(PASSWORD)},
        "users/b%20%2F": {"consumer_byte_rate": "5"},
        "users/b%20%2F/clients": None,
        "users/b%20%2F/clients/<default>": {"request_percentage": "12.5"},
        "clients/<default>": {"producer_byte_rate": "7"},
        "ips/10.0.0.1": {"connection_creation_rate": "3"},
    }.items():
        zookeeper.data[f"/config/{path}"] = config and json.dumps({"version": 1, "config": config})
    entry = Entry("User:a", "*", Operation.DESCRIBE, Permission.ALLOW)
    denial = Entry("User:a", "10.0.0.1", Operation.DESCRIBE_CONFIGS, Permission.DENY)
    zookeeper.data |= {
        "/kafka-acl": None,
        "/kafka-acl/TransactionalId": None,
        "/kafka-acl/TransactionalId/t-1": encode_acls((entry, entry)).decode(),
        "/kafka-acl-extended": None,
        "/kafka-acl-extended/prefixed": None,
        "/kafka-acl-extended/prefixed/Topic": None,
        "/kafka-acl-extended/prefixed/Topic/logs-": encode_acls((denial,)).decode(),
    }
    found = cluster_settings_of(zookeeper)
    assert found.quotas == {
        (("user", "b /"),): {"consumer_byte_rate": 5.0},
        (("client-id", None), ("user", "b /")): {"request_percentage": 12.5},
        (("client-id", None),): {"producer_byte_rate": 7.0},
        (("ip", "10.0.0.1"),): {"connection_creation_rate": 3.0},
    }
    assert found.credentials == {("alice", "SCRAM-SHA-256"): CREDENTIAL}
    assert found.acls == (
        Acl(
            ResourcePattern(ResourceType.TRANSACTIONAL_ID, PatternType.LITERAL, "t-1"),
            Entry("User:a", "*", Operation.DESCRIBE, Permission.ALLOW),
        ),
        Acl(
            ResourcePattern(ResourceType.TOPIC, PatternType.PREFIXED, "logs-"),
            Entry("User:a", "10.0.0.1", Operation.DESCRIBE_CONFIGS, Permission.DENY),
        ),
    )
    unknown = encode_acls((UnknownEntry("User:a", "*", "Juggle", "Allow"),)).decode()
    zookeeper.data["/kafka-acl/TransactionalId/t-1"] = unknown
    with pytest.raises(ValueError, match="t-1 has the Operation Juggle, which is not known"):
        cluster_settings_of(zookeeper)
    del zookeeper.data["/kafka-acl"]
    zookeeper.data["/latest_producer_id_block"] = "{"
    with pytest.raises(ValueError, match="latest_producer_id_block is not what Kafka writes"):
        cluster_settings_of(zookeeper)


TOKEN = DelegationToken(
    token_id="t-1",
    owner=Principal("User", "alice"),
    requester=Principal("User", "admin"),
    renewers=(Principal("User", "bob"),),
    issued_ms=1,
    expires_ms=1 << 50,
    max_ms=1 << 50,
)


@pytest.mark.skipif(not ZNODES.exists(), reason="needs the recorded znodes")
def test_zookeeper_says_what_else_a_cluster_has() -> None:
    zookeeper = RecordedZooKeeper()

    def config(*settings: str) -> str:
        named = dict(one.split("=") for one in settings)
        return json.dumps({"version": 1, "config": named})

    zookeeper.data |= {
        "/config/brokers/<default>": config("log.retention.ms=-1", "num.io.threads=3"),
        "/config/brokers/2": config(),
        "/config/users/<default>": config("producer_byte_rate=5"),
        "/config/users/<default>/clients": None,
        "/config/users/<default>/clients/<default>": config("request_percentage=6"),
        "/config/users/carol": '{"version":1,"config":{"SCRAM-SHA-1":"x"}}',
        "/config/ips/<default>": config("connection_creation_rate=7"),
        "/config/client-metrics": None,
        "/config/client-metrics/a%20b": config("interval.ms=5"),
        "/config/groups": None,
        "/kafka-acl-extended": None,
        "/kafka-acl-extended/regex": None,
        "/delegation_token": None,
        "/delegation_token/tokens": None,
        "/delegation_token/tokens/t-1": encode_token(TOKEN).decode(),
        "/delegation_token/tokens/gone": None,
        "/admin/delete_topics/gamma": None,
        "/admin/reassign_partitions": '{"version":1,"partitions":[]}',
        "/feature": '{"version":1,"status":1,"features":{"f":{"max_version_level":1}}}',
    }
    found = cluster_settings_of(zookeeper)
    assert found.default_configs == {"log.retention.ms": "-1", "num.io.threads": "3"}
    assert found.broker_configs == {"1": {"num.io.threads": "6"}}
    assert found.quotas == {
        (("user", "alice"),): {"producer_byte_rate": 1048576.0},
        (("user", None),): {"producer_byte_rate": 5.0},
        (("client-id", None), ("user", None)): {"request_percentage": 6.0},
        (("ip", None),): {"connection_creation_rate": 7.0},
    }
    assert found.tokens == {"t-1": TOKEN}
    assert found.left_out == (
        "the SCRAM-SHA-1 password of user carol",
        "the settings of client-metrics a b",
        "the ACLs of the pattern type regex",
        "the deletion of gamma, which the cluster had not finished",
        "the reassignment of partitions that was in progress",
        "the finalized features f",
    )


def taken_over(
    directory: Path, monkeypatch: pytest.MonkeyPatch, *options: str, **more: Any
) -> Result:
    cluster = ClusterSettings(topics={"kept": {}, "keyed": {}, "plain": {}}, **more)
    monkeypatch.setattr("ottla.cli.directory.adopt_sources.read_zookeeper", lambda *_: cluster)
    return run(directory, "--zookeeper", "somewhere:2181", *options)


def test_what_clients_changed_for_the_brokers_of_a_cluster_is_taken_over(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = PasswordEncoder("secret", None, Encryption(iterations=2048), secrets.token_bytes)
    password = "listener.name.internal.ssl.key.password"
    more: dict[str, Any] = {
        "default_configs": {"log.retention.ms": "-1", "node.id": "7", "message.max.bytes": "9999"},
        "broker_configs": {
            "1": {"message.max.bytes": "8888", password: encoder.encode("of the key")},
            "3": {"num.io.threads": "3"},
        },
        "tokens": {"t-1": TOKEN},
        "left_out": ("the settings of groups g",),
    }
    result = taken_over(directory, monkeypatch, **more)
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert next(one for one in lines if one.startswith("plain: ")).endswith("bytes, kept")
    (taken,) = (one for one in lines if one.startswith("taken over"))
    assert "3 settings of brokers, 0 quotas" in taken
    assert "1 delegation token, and" in taken
    assert "not taken over, they have no effect here: node.id of all brokers" in lines
    assert "not taken over: the settings of other brokers (3)" in lines
    assert "not taken over: the settings of groups g" in lines
    assert f"not taken over: {password} of broker 1 (password.encoder.secret is not set; " in (
        result.output
    )
    broker = open_broker(directory)
    assert broker.topics.get("plain").overrides == {}
    assert broker.topics.get("plain").config.retention_ms == -1
    broker.admin.alter_broker(
        ConfigSource.ALL_BROKERS,
        Alteration(changes=[ConfigChange(name="message.max.bytes", value="77")]),
    )
    broker.close()
    option = "-o", "password.encoder.secret=secret"
    result = taken_over(directory, monkeypatch, *option, **more)
    assert "1 setting of brokers" in result.output
    broker = open_broker(directory)
    sources = broker.settings.sources
    assert sources[ConfigSource.ALL_BROKERS] == {
        "log.retention.ms": "-1",
        "message.max.bytes": "77",
    }
    assert sources[ConfigSource.BROKER] == {"message.max.bytes": "8888", password: "of the key"}
    assert broker.security.image.tokens == {"t-1": TOKEN}
    broker.close()


def test_a_default_of_the_cluster_that_is_refused_leaves_topics_unconfirmed(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else retention would delete what the cluster kept."""
    defaults = {"log.cleanup.policy": "shred", "log.retention.ms": "5"}
    result = taken_over(directory, monkeypatch, default_configs=defaults)
    assert result.exit_code == 1
    assert "left unchanged, since they have no effect here: cleanup.policy=shred" in result.output
    assert "3 topics left unconfirmed" in result.output


def test_quotas_and_producer_ids_of_a_cluster_hold_from_the_next_start_on(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, lost = (("client-id", "c"),), (("user", "u"),)
    cluster = ClusterSettings(
        topics={"kept": {}, "keyed": {}, "plain": {}},
        quotas={kept: {"producer_byte_rate": 7.0}, lost: {"controller_mutation_rate": 3.0}},
        next_producer_id=3000,
        credentials={("alice", "SCRAM-SHA-256"): CREDENTIAL},
        acls=(ACL,),
    )
    monkeypatch.setattr("ottla.cli.directory.adopt_sources.read_zookeeper", lambda *_: cluster)
    result = run(directory, "--zookeeper", "somewhere:2181")
    assert result.exit_code == 0
    assert "and that the next producer id is 3000" in result.output
    assert "have no effect here: controller_mutation_rate of user u" in result.output
    assert "1 user with passwords, 1 ACL" in result.output
    assert "ACLs take effect if the broker has authorizer.class.name=org" in result.output
    broker = open_broker(directory)
    assert list(broker.security.image.all_acls()) == [ACL]
    assert broker.security.image.credentials == {("alice", "SCRAM-SHA-256"): CREDENTIAL}
    broker.admin.alter_quotas(
        [QuotaAlteration(names=kept, limits={"producer_byte_rate": 9.0})], lambda one: one
    )
    assert broker.producer_ids.allocate() >= 3000
    broker.close()
    again = json.loads(run(directory, "--zookeeper", "x", "--json").output.splitlines()[-2])
    assert again["quotas"] == 0, "what was changed here since stays"
    assert again["scram_users"] == ["alice"]


def test_a_copy_of_the_directory_without_its_record_is_unknown_again(
    directory: Path, tmp_path: Path
) -> None:
    run(directory, "--yes")
    copy = tmp_path / "copy"
    shutil.copytree(directory, copy, ignore=shutil.ignore_patterns("ottla-*", "__cluster*"))
    assert overrides(copy) == {}
