"""`ottla cluster format` prepares a node's directories, and says in one line why it does not."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ottla.base.errors import UserError
from ottla.base.files import OsFileSystem
from ottla.base.ids import parse_uuid, uuid_text
from ottla.broker.metadata.bootstrap import read_bootstrap
from ottla.cli.main import cluster_group
from ottla.metadata.image import METADATA_VERSION
from ottla.quorum.voters import Endpoint
from ottla.storage.files.meta_properties import properties_of
from tests.support.quorum_logs import QuorumDirectory

CLUSTER = "AAECAwQFBgcICQoLDA0ODw"
ALICE = "SCRAM-SHA-512=[name=alice,password=${env:ALICE},iterations=5000]"


def run(*arguments: object, **more: str) -> Result:
    """`more` is in the environment."""
    return CliRunner(env={"ALICE": "her secret", **more}).invoke(
        cluster_group, [*map(str, arguments)], catch_exceptions=False
    )


def levels(*features: str) -> tuple[str, ...]:
    named = (word for one in features for word in ("--feature", one))
    return "-t", CLUSTER, "--node-id", "1", *named


def test_a_first_node_names_itself_and_has_the_users_and_levels_that_are_given(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "d"
    words = ("-t", CLUSTER, "--node-id", 7, "--standalone", "--listener", "C://here:9093")
    more = ("--release-version", "3.9", "--add-scram", ALICE, "--json")
    (line,) = run("format", directory, *words, *more).output.splitlines()
    found = json.loads(line)
    assert found["isNew"]
    properties = properties_of(OsFileSystem(), str(directory))
    assert properties is not None
    assert (properties.cluster_id, properties.node_id) == (CLUSTER, 7)
    assert properties.directory_id == parse_uuid(found["directoryId"])
    (voter,) = QuorumDirectory(OsFileSystem(), str(directory)).opened.history.voters
    assert (voter.key.directory_id, voter.endpoints) == (
        properties.directory_id,
        (Endpoint("C", "here", 9093),),
    )
    level, user = (record for record, _ in read_bootstrap(OsFileSystem(), str(directory)))
    assert (level.feature_level, user.name, user.iterations) == (21, "alice", 5000)  # type: ignore[attr-defined]


def test_a_level_that_is_given_says_at_which_levels_other_features_begin(tmp_path: Path) -> None:
    for number, (features, expected) in enumerate(
        (
            (("metadata.version=21",), {METADATA_VERSION: 21}),
            (
                ("metadata.version=22", "share.version=1", "kraft.version=0"),
                {METADATA_VERSION: 22, "group.version": 1, "share.version": 1},
            ),
            (
                ("metadata.version=26", "eligible.leader.replicas.version=0"),
                {METADATA_VERSION: 26, "group.version": 1, "transaction.version": 2},
            ),
        )
    ):
        directory = tmp_path / str(number)
        assert run("format", directory, *levels(*features)).exit_code == 0
        records = (one for one, _ in read_bootstrap(OsFileSystem(), str(directory)))
        assert {one.name: one.feature_level for one in records} == expected  # type: ignore[attr-defined]


def test_a_file_of_settings_names_directories_node_and_listener(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text(
        f"process.roles=controller\nnode.id=3\nlog.dirs={tmp_path}/a,{tmp_path}/b\n"
        "listeners=CTL://0.0.0.0:9093\nadvertised.listeners=CTL://host-3:9093\n"
        "controller.listener.names=CTL\nlistener.security.protocol.map=CTL:PLAINTEXT\n"
        "controller.quorum.bootstrap.servers=host-3:9093\n"
    )
    with pytest.raises(UserError, match="say --standalone for the first node"):
        run("format", "-c", config, "-t", CLUSTER)
    lines = run("format", "-c", config, "-t", CLUSTER, "--standalone").output.splitlines()
    assert [line.split(" ")[:6] for line in lines] == [
        [f"{tmp_path}/{name}", "formatted", "for", "node", "3", "of"] for name in "ab"
    ]
    (voter,) = QuorumDirectory(OsFileSystem(), str(tmp_path / "a")).opened.history.voters
    assert voter.endpoints == (Endpoint("CTL", "host-3", 9093),)
    again = run("format", "-c", config, "-t", CLUSTER, "--standalone", "--ignore-formatted")
    assert "was formatted before" in again.output


def test_settings_of_a_container_are_in_the_environment(tmp_path: Path) -> None:
    container = {
        "CLUSTER_ID": CLUSTER,
        "KAFKA_NODE_ID": "3",
        "KAFKA_PROCESS_ROLES": "controller",
        "KAFKA_LISTENERS": "CONTROLLER://:9093",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "3@host-3:9093,4@host-4:9093",
        "KAFKA_LOG_DIRS": str(tmp_path / "d"),
    }
    result = run("format", **container)
    assert result.exit_code == 0, result.output
    properties = properties_of(OsFileSystem(), str(tmp_path / "d"))
    assert properties is not None
    assert (properties.cluster_id, properties.node_id) == (CLUSTER, 3)


def test_an_id_is_one_that_an_id_can_be() -> None:
    text = run("new-id").output.strip()
    assert uuid_text(parse_uuid(text)) == text


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("-t", "short", "--node-id", "1"), "an id is 22 characters"),
        (("-t", CLUSTER), "name the node: --node-id N"),
        (
            ("-t", CLUSTER, "--node-id", "1", "--standalone", "--no-initial-controllers"),
            "--standalone and --no-initial-controllers: choose one",
        ),
        (("-t", CLUSTER, "--node-id", "1", "--listener", "here"), "a listener is NAME://HOST:PORT"),
        (("-t", CLUSTER, "--node-id", "1", "--feature", "x"), "write NAME=LEVEL"),
        (("-t", CLUSTER, "--node-id", "1", "--release-version", "2.0"), "2.0"),
        (("-t", CLUSTER, "--node-id", "1", "--add-scram", "MD5=[]"), "write SCRAM-SHA-256="),
        (
            ("-t", CLUSTER, "--node-id", "1", "--add-scram", "SCRAM-SHA-256=[name=a]"),
            "either a password or a saltedpassword",
        ),
        (
            ("-t", CLUSTER, "--node-id", "1", "--add-scram", ALICE, "--release-version", "3.4"),
            "needs a cluster of release 3.5",
        ),
        (("-t", CLUSTER, "--node-id", "1", "--initial-controllers", "1@h"), "a controller is ID@"),
        (
            levels("metadata.version=34"),
            "metadata.version 34: this version of Ottla knows levels 7",
        ),
        (levels("metadata.version=6"), "a new cluster cannot have metadata.version 6"),
        (levels("streams.version=1"), "streams.version 1: this version of Ottla knows no level"),
        (levels("share.version=3"), "share.version 3: this version of Ottla knows levels 0 to 2"),
        (
            levels("metadata.version=22", "eligible.leader.replicas.version=1"),
            "at metadata.version 22 (4.0-IV0): it needs 23 (4.0-IV1)",
        ),
        (
            (*levels("metadata.version=21"), "--release-version", "4.0"),
            "metadata.version=21 and release 4.0: give one of them",
        ),
        (levels("kraft.version=2"), "--feature kraft.version=2: there are 0 and 1"),
        ((*levels("kraft.version=0"), "--standalone"), "it is 1 with --standalone"),
        (
            (*levels(), "--standalone", "--release-version", "3.8"),
            "kraft.version 1 at metadata.version 20 (3.8-IV0): it needs 21 (3.9-IV0)",
        ),
        (levels("kraft.version=1"), "and 0 with controller.quorum.voters"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    words: tuple[str, ...], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError) as error:
        run("format", tmp_path / "d", *words)
    assert reason in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "d").exists()
