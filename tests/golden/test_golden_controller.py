"""What the controller does with the registries that Kafka's had, beside what Kafka's did then."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.cluster.orders import OrderWriter
from ottla.config.inter_broker_version import parse_inter_broker_version
from ottla.controller.events import (
    AlterReassignments,
    ControlledShutdown,
    DeleteTopic,
    DeletionAnswered,
    ElectLeaders,
)
from ottla.controller.operations import Create
from ottla.protocol.api_keys import ApiKey
from ottla.zookeeper import paths
from ottla.zookeeper.controllers import encode_controller_epoch
from tests.golden.exchanges import exchanges
from tests.golden.znodes import RECORDED, dumps, znodes
from tests.support.controllers import LonelyController
from tests.support.model_zookeeper import ModelZooKeeper, Node

pytestmark = pytest.mark.skipif(RECORDED is None, reason="no recorded nodes")

VERSIONS = ("3.9", "2.4")
each_version = pytest.mark.parametrize("version", VERSIONS)


def dump(version: str, number: int) -> Any:
    name = "zookeeper" if version == "3.9" else "ibp-2.4"
    (found,) = [
        path
        for path in dumps()
        if path.parent.name == name and path.name.startswith(f"znodes-{number}-")
    ][:1]
    return znodes(found)


def controller(version: str, number: int) -> LonelyController:
    """One that has taken over what a dump says, as the controller of the same epoch."""
    zookeeper = registries(version, number)
    epoch = int(zookeeper.content(paths.CONTROLLER_EPOCH) or 0)
    zookeeper.nodes[paths.CONTROLLER_EPOCH].content = encode_controller_epoch(epoch - 1)
    return LonelyController(zookeeper, version=version)


def registries(version: str, number: int) -> ModelZooKeeper:
    """Without a controller."""
    zookeeper = ModelZooKeeper(zxid=100_000)
    zookeeper.nodes = {
        path: Node(one.content, one.version, one.czxid, None)
        for path, one in dump(version, number).items()
        if path != paths.CONTROLLER
    }
    return zookeeper


def states(nodes: Iterable[tuple[str, Any]]) -> dict[str, tuple[bytes, int]]:
    return {path: (one.content, one.version) for path, one in nodes if path.endswith("/state")}


def check_states(one: LonelyController, version: str, number: int) -> None:
    expected = states(dump(version, number).items())
    assert states(one.zookeeper.nodes.items()) == expected
    assert len(expected) > 10


def orders(
    version: str, moment: str, api_key: ApiKey, *, until_ms: int
) -> dict[int, dict[TopicPartition, dict[str, Any]]]:
    """What Kafka's controller sent first of each partition to each broker in a moment."""
    name = "exchanges.jsonl" if version == "3.9" else "exchanges-ibp-2.4.jsonl"
    found: dict[int, dict[TopicPartition, dict[str, Any]]] = defaultdict(dict)
    for one in exchanges(name):
        if one.moment == moment and one.header.api_key == api_key and one.ms < until_ms:
            for place, fields in flat(one.request).items():
                found[one.receiver][place] = fields
    return found


def flat(request: Any) -> dict[TopicPartition, dict[str, Any]]:
    found = {}
    for topic in request.topic_states:
        for state in topic.partition_states:
            names = [field.name for field in state.FIELDS if field.name != "topic_name"]
            fields = {name: getattr(state, name) for name in names}
            found[TopicPartition(topic.topic_name, state.partition_index)] = fields
    return found


def sent(
    one: LonelyController, version: str, api_key: ApiKey
) -> dict[int, dict[TopicPartition, dict[str, Any]]]:
    writer = OrderWriter(
        controller_id=0, version=parse_inter_broker_version(version), listener="INTERNAL"
    )
    found: dict[int, dict[TopicPartition, dict[str, Any]]] = defaultdict(dict)
    for outgoing in one.outgoing:
        for request in writer.requests(outgoing):
            if request.api_key == api_key:
                found[outgoing.broker] |= flat(request.message)
    return found


@each_version
def test_taking_over_changes_nothing_where_all_is_well(version: str) -> None:
    one = controller(version, 1)
    check_states(one, version, 1)
    told = sent(one, version, ApiKey.LEADER_AND_ISR)
    replicas = one.machine.context.partitions_on
    assert {broker: set(its) for broker, its in told.items()} == {
        broker: set(replicas(broker)) for broker in (0, 1, 2)
    }


def test_a_broker_s_death_moves_leaders_as_with_kafka() -> None:
    one = controller("3.9", 1)
    one.outgoing.clear()
    one.zookeeper.delete(paths.broker_path(2))
    one.run()
    check_states(one, "3.9", 2)
    ours = sent(one, "3.9", ApiKey.LEADER_AND_ISR)
    theirs = orders("3.9", "kill -9 broker 2", ApiKey.LEADER_AND_ISR, until_ms=35_000)
    assert ours == theirs
    assert {broker: len(its) for broker, its in ours.items()} == {0: 12, 1: 12}


def test_a_broker_that_is_back_hears_of_its_replicas_as_with_kafka() -> None:
    one = controller("3.9", 2)
    one.outgoing.clear()
    back = dump("3.9", 3)[paths.broker_path(2)]
    one.zookeeper.apply(Create(back.path, back.content))
    one.run()
    ours = sent(one, "3.9", ApiKey.LEADER_AND_ISR)
    theirs = orders("3.9", "broker 2 returns", ApiKey.LEADER_AND_ISR, until_ms=41_000)
    assert ours[2] == theirs[2]


@each_version
def test_preferred_leaders_are_elected_as_with_kafka(version: str) -> None:
    one = controller(version, 3)
    answer = one.ask(ElectLeaders(pending_id=1, partitions=None))
    assert set(answer.errors.values()) == {ErrorCode.NONE}
    assert len(answer.errors) == 6
    check_states(one, version, 4)


@each_version
def test_a_controlled_shutdown_moves_leaders_as_with_kafka(version: str) -> None:
    one = controller(version, 9)
    assert one.ask(ControlledShutdown(pending_id=1, broker=1)).remaining == ()
    one.zookeeper.delete(paths.broker_path(1))
    one.run()
    check_states(one, version, 10)


def test_after_the_controller_s_death_the_next_one_does_as_kafka_s_did() -> None:
    zookeeper = registries("3.9", 12)
    zookeeper.delete(paths.broker_path(0))
    one = LonelyController(zookeeper, broker=2)
    check_states(one, "3.9", 13)


def test_a_deletion_stops_and_deletes_replicas_as_with_kafka() -> None:
    one = controller("3.9", 7)
    one.outgoing.clear()
    one.ask(DeleteTopic(pending_id=1, topic="gamma"))
    ours = sent(one, "3.9", ApiKey.STOP_REPLICA)
    moment = "delete topic gamma, all up"
    assert ours == orders("3.9", moment, ApiKey.STOP_REPLICA, until_ms=51_000)
    gamma = TopicPartition("gamma", 0)
    for broker in ours:
        epoch = one.machine.context.brokers[broker].epoch
        errors = {gamma: ErrorCode.NONE}
        one.receive(DeletionAnswered(broker=broker, broker_epoch=epoch, errors=errors))
    assert [path for path in one.zookeeper.nodes if "gamma" in path] == []
    check_states(one, "3.9", 9)


def test_a_reassignment_begins_as_with_kafka() -> None:
    one = controller("3.9", 4)
    wanted: dict[TopicPartition, tuple[int, ...] | None] = {TopicPartition("beta", 0): (1, 2)}
    one.ask(AlterReassignments(pending_id=1, wanted=wanted))
    during = dump("3.9", 5)[paths.topic_path("beta")]
    assert one.zookeeper.content(during.path) == during.content
