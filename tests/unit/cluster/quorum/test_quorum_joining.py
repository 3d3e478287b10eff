"""A node of a KRaft cluster, from its formatted directory to the end of its threads."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import RLock
from typing import Any

import pytest

from ottla.base.clock import SystemClock
from ottla.base.errors import RefusalError, UserError
from ottla.base.files import read_file, replace_file
from ottla.base.turns import in_one_part
from ottla.broker.assemble import assemble
from ottla.broker.broker import Broker
from ottla.broker.controlling.active_controller import ActiveController
from ottla.broker.metadata.formatting import FormatOptions, format_directories
from ottla.broker.startup.opening import BrokerOptions
from ottla.cluster.place import Place
from ottla.cluster.quorum.broker_lifecycle import BrokerState
from ottla.cluster.quorum.joining import QuorumBroker, Told, is_leaving
from ottla.cluster.quorum.node_options import lone_voter, misplaced_voter
from ottla.config.broker import BrokerConfig, broker_config
from ottla.metadata.brokers import BrokerRegistration, Endpoint
from ottla.metadata.deciding.features import feature_records, new_features
from ottla.metadata.image import METADATA_VERSION, MetadataImage
from ottla.metadata.record_versions import versioned
from ottla.metadata.records import RegisterBrokerRecord
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.protocol.messages.broker_registration import BrokerRegistrationRequest
from ottla.quorum.voters import ReplicaKey, Voter, VoterSet
from ottla.storage.files.clean_shutdown import read_clean_shutdown
from ottla.storage.files.metadata_files import read_metadata_log
from ottla.testing import FakeFileSystem
from tests.support.brokers import NOW_MS, disk, id_of
from tests.support.patience import wait_until
from tests.support.replicated_brokers import replicas_of
from tests.unit.cluster.quorum.test_controller_connection import Controllers

GRANTED_EPOCH = 500
"""The epoch that the stand-in gives brokers."""

ME, CLUSTER_ID = 7, "a-cluster-for-tests-01"
CONTROLLER = Endpoint(listener="CONTROLLER", host="h", port=9093, security_protocol="PLAINTEXT")
CLIENTS = Endpoint(listener="PLAINTEXT", host="h", port=9092, security_protocol="PLAINTEXT")
SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": str(ME),
    "listeners": "PLAINTEXT://h:9092,CONTROLLER://h:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": f"{ME}@h:9093",
    "log.dirs": "/d",
    "broker.heartbeat.interval.ms": "20",
    "controller.quorum.election.timeout.ms": "10",
}


def settings(**changed: str) -> BrokerConfig:
    return broker_config(
        SETTINGS | {name.replace("_", "."): value for name, value in changed.items()}
    )


def formatted(*paths: str, **features: int) -> FakeFileSystem:
    """For 3.9, with other features; `_` stands for `.` in their names."""
    more = {name.replace("_", "."): level for name, level in features.items()}
    numbers = iter(range(170, 199))  # Kafka reserves those below 100
    files = disk(*paths)
    options = FormatOptions(
        node_id=ME,
        cluster_id=CLUSTER_ID,
        records=feature_records(new_features("3.9") | more),
        now_ms=NOW_MS,
        new_id=lambda: id_of(next(numbers)),
    )
    format_directories(paths, files, options)
    return files


class Node:
    """A node whose own controller is a stand-in, which grants what brokers ask."""

    def __init__(
        self, files: FakeFileSystem, config: BrokerConfig, controllers: Controllers
    ) -> None:
        self.controllers = controllers
        self.complaints: list[str] = []
        self.failures: list[Exception] = []
        told = Told(self.complaints.append, self.failures.append)
        self.node = QuorumBroker(config, ["/d"], files, SystemClock(), told)
        self.broker: Broker = assemble(["/d"], files, config, self._options())
        self.place = Place(
            lock=RLock(),
            wake=lambda: None,
            connect=controllers.connect,
            listener="PLAINTEXT",
            control_connect=controllers.connect,
            control_listener="CONTROLLER",
            endpoints=(CLIENTS,) if config.has_broker_role else (),
            controller_endpoints=(CONTROLLER,) if config.has_controller_role else (),
        )

    def _options(self) -> BrokerOptions:
        numbers = iter(range(500, 1000))
        return BrokerOptions(
            now_ms=NOW_MS,
            new_id=lambda: id_of(next(numbers)),
            random_below=lambda _: 0,
            node_id=self.node.node_id,
            cluster_id=self.node.cluster_id,
            membership=self.node.membership,
            quorum=self.node.quorum_start(),
        )

    def asked(self, kind: type[Any]) -> list[Any]:
        return self.controllers.of(kind)

    def commit_registration(self) -> None:
        """In the quorum's log there is what the stand-in grants."""
        ids = [one.directory_id for one in self.broker.directories if one.directory_id]
        record = RegisterBrokerRecord(broker_id=ME, broker_epoch=GRANTED_EPOCH, log_dirs=ids)

        def register(controller: ActiveController) -> bool:
            controller._pending.write([versioned(record, controller.image.level)])
            return True

        def is_committed() -> bool:
            decided = self.node.membership.decide(lambda one: in_one_part(lambda: register(one)))
            wait_until(lambda: decided.result is not None)
            return decided.result is True

        wait_until(is_committed)


@contextmanager
def running(files: FakeFileSystem, **changed: str) -> Iterator[Node]:
    one = Node(files, settings(**changed), Controllers())
    try:
        one.node.start(one.broker, one.place)
        if one.node.state is not None:
            one.commit_registration()
        yield one
    finally:
        one.node.stop()
        one.broker.close()


def test_a_node_leads_its_quorum_follows_its_image_and_registers() -> None:
    files = formatted("/d")
    with running(files) as one:
        wait_until(lambda: one.node.state is BrokerState.RUNNING)
        assert one.node.membership.is_controller
        wait_until(lambda: one.broker.image_store.image.features.get(METADATA_VERSION) == 21)
        (request,) = one.asked(BrokerRegistrationRequest)
        assert (request.cluster_id, request.previous_broker_epoch) == (CLUSTER_ID, -1)
        assert request.log_dirs == [one.broker.directories[0].directory_id]
        assert [listener.name for listener in request.listeners] == ["PLAINTEXT"]
        assert replicas_of(one.broker).manager.broker_epoch == GRANTED_EPOCH
        one.node.leave()
        assert one.asked(BrokerHeartbeatRequest)[-1].want_shut_down
    assert (one.complaints, one.failures) == ([], [])
    left = read_clean_shutdown(files, "/d/.kafka_cleanshutdown")
    assert left is not None
    assert left.broker_epoch == GRANTED_EPOCH
    with running(files) as again:
        wait_until(lambda: again.asked(BrokerRegistrationRequest))
        assert again.asked(BrokerRegistrationRequest)[0].previous_broker_epoch == GRANTED_EPOCH
        wait_until(lambda: again.broker.image_store.image.features.get(METADATA_VERSION) == 21)


def test_a_node_that_is_only_a_controller_registers_as_one() -> None:
    changed = {"process_roles": "controller", "listeners": "CONTROLLER://h:9093"}
    with running(formatted("/d"), **changed) as one:
        wait_until(lambda: one.controllers.asked)
        assert one.node.state is None
        decided = one.node.membership.decide(
            lambda controller: in_one_part(lambda: controller.end_offset)
        )
        wait_until(lambda: decided.result is not None)
        assert isinstance(decided.result, int)
        assert decided in one.node.membership.take_answered()


def test_the_quorums_log_may_have_a_directory_of_its_own() -> None:
    files = formatted("/m", "/d")
    with running(files, metadata_log_dir="/m") as one:
        wait_until(lambda: one.node.state is BrokerState.RUNNING)
        assert files.status("/m/__cluster_metadata-0") is not None
        assert files.status("/d/__cluster_metadata-0") is None
    assert read_clean_shutdown(files, "/m/.kafka_cleanshutdown") is not None


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"node_id": "8"}, "/d is formatted for node 7, and node.id is 8"),
        ({"controller_quorum_voters": "8@h:9093"}, "node.id=7 is a controller; name it here too"),
        (
            {"process_roles": "broker", "listeners": "PLAINTEXT://h:9092"},
            "node 7 votes, so process.roles must have controller",
        ),
        (
            {
                "process_roles": "broker",
                "listeners": "PLAINTEXT://h:9092",
                "controller_quorum_voters": "",
            },
            "name the controllers of the cluster here",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused_in_one_line(
    changed: dict[str, str], line: str
) -> None:
    with pytest.raises(UserError, match=line) as refused:
        Node(formatted("/d"), settings(**changed), Controllers())
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("voter", "advertised", "is_named"),
    [
        ("7@h:9093", "", False),
        ("7@h:9193", "CONTROLLER://h:9193", False),
        ("7@h:9193", "", True),
    ],
)
def test_a_voter_that_does_not_listen_where_the_others_look_is_named(
    voter: str, advertised: str, is_named: bool
) -> None:
    config = settings(
        controller_quorum_voters=voter,
        listeners="PLAINTEXT://h:9092,CONTROLLER://h:9093",
        **({"advertised_listeners": advertised} if advertised else {}),
    )
    complaint = misplaced_voter(config, ME) or ""
    assert bool(complaint) == is_named
    assert ("has node 7 at h:9193, and CONTROLLER listens on port 9093" in complaint) == is_named


@pytest.mark.parametrize(
    ("servers", "voters", "is_named"),
    [
        ("a:9193,b:9193", (ME,), True),
        ("a:9193,b:9193", (ME, 1), False),
        ("a:9193,h:9093", (ME,), False),
    ],
)
def test_a_node_that_is_a_quorum_of_its_own_beside_the_controllers_that_it_names_is_named(
    servers: str, voters: tuple[int, ...], is_named: bool
) -> None:
    config = settings(
        controller_quorum_voters="",
        controller_quorum_bootstrap_servers=servers,
        listeners="PLAINTEXT://h:9092,CONTROLLER://h:9093",
    )
    known = VoterSet.of([Voter(ReplicaKey(one, id_of(one))) for one in voters])
    assert (lone_voter(config, ME, known) is not None) == is_named


def test_a_directory_that_is_not_formatted_is_refused() -> None:
    with pytest.raises(UserError, match="/d is not formatted for a KRaft cluster"):
        Node(disk("/d"), settings(), Controllers())


@pytest.mark.parametrize("name", ["AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAQ"])
def test_a_reserved_directory_id_is_named_at_the_start(name: str) -> None:
    files = formatted("/d")
    path = "/d/meta.properties"
    text = read_file(files, path).decode()
    replace_file(files, path, re.sub("directory.id=.*", f"directory.id={name}", text).encode())
    with pytest.raises(UserError, match=f"/d/meta.properties: directory.id={name} is reserved.*"):
        Node(files, settings(), Controllers())


def _records(files: FakeFileSystem) -> MetadataImage:
    """What the records of the log say: voters and epochs are the quorum's."""
    content = read_metadata_log(files, "/d").content
    return replace(content, end_offset=0, epoch=0, voters=frozenset())


LEVEL_34 = (
    "the cluster has metadata.version 34, and this version of Ottla knows 7 (3.3-IV3) to 33 "
    "(4.4-IV2): use a newer version of Ottla"
)


def test_a_log_of_a_level_that_is_not_known_is_not_begun() -> None:
    files = formatted("/d", metadata_version=34)
    one = Node(files, settings(), Controllers())
    try:
        one.node.start(one.broker, one.place)
        wait_until(lambda: one.failures)
        assert str(one.failures[0]) == LEVEL_34
        assert not one.broker.image_store.image.features
    finally:
        one.node.stop()
        one.broker.close()
    assert _records(files) == MetadataImage(), "nothing was written"


def test_a_cluster_that_comes_to_a_level_that_is_not_known_is_left_in_one_line() -> None:
    """Said by the log while the node runs, and by the log or a snapshot at the next start."""
    files = formatted("/d")
    with running(files) as one:
        wait_until(lambda: one.node.membership.is_controller)
        later = feature_records({METADATA_VERSION: 34})
        one.node.membership.decide(
            lambda controller: in_one_part(lambda: controller._pending.write(later))
        )
        wait_until(lambda: one.failures)
        assert [str(error) for error in one.failures] == [LEVEL_34]
        assert one.broker.image_store.image.level == 21
    before = _records(files)
    again = Node(files, settings(), Controllers())
    try:
        again.node.start(again.broker, again.place)
        wait_until(lambda: again.failures)
        assert {str(error) for error in again.failures} == {LEVEL_34}
        assert not again.node.membership.is_controller
    finally:
        again.node.stop()
        again.broker.close()
    assert _records(files) == before, "nothing was written"


def test_a_cluster_with_streams_groups_is_entered_and_told_of_what_is_missing() -> None:
    with running(formatted("/d", streams_version=1)) as one:
        wait_until(lambda: one.node.state is BrokerState.RUNNING)
        assert [line for line in one.complaints if "serves no streams groups" in line]
        assert one.broker.image_store.image.features["streams.version"] == 1
        assert not one.failures


def test_a_lost_metadata_log_is_not_begun_again() -> None:
    files = formatted("/d")
    with running(files) as one:
        wait_until(lambda: one.node.membership.is_controller)
    replace_file(files, "/d/__cluster_metadata-0/quorum-state", b"?")
    with pytest.raises(RefusalError, match="quorum-state"), running(files):
        raise AssertionError("it must not start")


def test_lost_votes_are_named_by_whoever_goes_on_without_them() -> None:
    files = formatted("/d")
    with running(files) as one:
        wait_until(lambda: one.node.membership.is_controller)
    files.remove("/d/__cluster_metadata-0/quorum-state")
    with running(files) as again:
        (line,) = again.complaints
        assert line.startswith("/d/__cluster_metadata-0/quorum-state is missing")
        # It is the only voter: nobody else knows of an epoch in which it may have voted.
        wait_until(lambda: again.node.membership.is_controller)


def test_a_damaged_bootstrap_checkpoint_costs_nobody_a_metadata_log() -> None:
    new, used = formatted("/d"), formatted("/d")
    with running(used) as one:
        wait_until(lambda: one.broker.image_store.image.features)
    for files, mend in ((new, "format the directory again"), (used, "move it away")):
        replace_file(files, "/d/bootstrap.checkpoint", b"?" * 100)
        with pytest.raises(RefusalError, match=f"bootstrap.checkpoint.*{mend}"), running(files):
            raise AssertionError("it must not start")
    used.remove("/d/bootstrap.checkpoint")
    with running(used) as again:
        wait_until(lambda: again.broker.image_store.image.features.get(METADATA_VERSION) == 21)


def test_a_broker_leaves_until_the_controller_has_let_it_go() -> None:
    assert is_leaving(BrokerRegistration(endpoints=(), is_shutting_down=True))
    assert not is_leaving(BrokerRegistration(endpoints=(), is_shutting_down=True, is_fenced=True))
    assert not is_leaving(BrokerRegistration(endpoints=()))
