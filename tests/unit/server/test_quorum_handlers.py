"""What clients of a node of a KRaft cluster see of it, by the image that the node follows."""

from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import CONSUMER_OFFSETS
from ottla.metadata.directories import LOST
from ottla.metadata.records import EndPoint, FenceBrokerRecord, RegisterControllerRecord
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.server.dispatching.request_context import Client
from tests.support.asking import ADDRESS, Asker
from tests.support.brokers import id_of
from tests.support.scripted_images import (
    LISTENER,
    ME,
    OTHER,
    THIRD,
    FollowingMember,
    ScriptedImages,
)

BROKERS, CONTROLLERS = 1, 2
AT_BROKER = Client(ADDRESS, "10.0.0.9", listener=LISTENER)
AT_CONTROLLER = Client(ADDRESS, "10.0.0.9", listener="CONTROLLER")


def fence(images: ScriptedImages, broker: int) -> None:
    images.commit(FenceBrokerRecord(id=broker, epoch=images.image.brokers[broker].epoch))


def described(member: FollowingMember, *topics: str) -> Any:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=one) for one in topics])
    return Asker(member.broker, client=AT_BROKER).ask(request, 12)


def cluster(member: FollowingMember, client: Client = AT_BROKER, **fields: Any) -> Any:
    return Asker(member.broker, client=client).ask(DescribeClusterRequest(**fields), 2)


def test_brokers_that_are_fenced_are_hidden_and_their_replicas_offline() -> None:
    images = ScriptedImages()
    member = FollowingMember()
    images.create("orders", 70, (1, 2))
    fence(images, OTHER)
    member.show(images.image)
    answer = described(member, "orders")
    assert [one.node_id for one in answer.brokers] == [ME, THIRD]
    (partition,) = answer.topics[0].partitions
    assert (partition.leader_id, partition.offline_replicas) == (ME, [OTHER])
    known = cluster(member)
    assert [one.broker_id for one in known.brokers] == [ME, THIRD]
    everybody = cluster(member, include_fenced_brokers=True)
    assert [(one.broker_id, one.is_fenced) for one in everybody.brokers] == [
        (ME, False),
        (OTHER, True),
        (THIRD, False),
    ]


def test_a_replica_in_a_directory_that_its_broker_has_lost_is_offline() -> None:
    images = ScriptedImages(ME)
    for broker, directory in ((OTHER, 20), (THIRD, 30)):
        images.register(broker, fenced=False, log_dirs=[id_of(directory)])
    images.create("orders", 70, (1, 2, 3))
    images.change(70, directories=[id_of(1), LOST, id_of(30)])
    member = FollowingMember()
    member.show(images.image)
    assert described(member, "orders").topics[0].partitions[0].offline_replicas == [OTHER]


def test_clients_of_brokers_are_told_of_any_live_broker_as_the_controller() -> None:
    images = ScriptedImages()
    fence(images, ME)
    member = FollowingMember()
    member.show(images.image)
    assert described(member).controller_id == OTHER
    assert cluster(member).controller_id == OTHER


def test_over_a_controllers_listener_the_registered_controllers_are_described() -> None:
    images = ScriptedImages()
    member = FollowingMember(leader_id=102)
    voters = cluster(member, AT_CONTROLLER, endpoint_type=CONTROLLERS)
    assert [(one.broker_id, one.host, one.port) for one in voters.brokers] == [
        (9, "localhost", 9093)
    ]
    for controller in (102, 101):
        endpoint = EndPoint(name="CONTROLLER", host="c", port=controller, security_protocol=0)
        images.commit(
            RegisterControllerRecord(
                controller_id=controller, incarnation_id=id_of(controller), end_points=[endpoint]
            )
        )
    member.show(images.image)
    answer = cluster(member, AT_CONTROLLER, endpoint_type=CONTROLLERS)
    assert (answer.controller_id, answer.endpoint_type) == (102, CONTROLLERS)
    assert [(one.broker_id, one.port) for one in answer.brokers] == [(101, 101), (102, 102)]
    for client, wanted in ((AT_CONTROLLER, BROKERS), (AT_BROKER, CONTROLLERS)):
        refused = cluster(member, client, endpoint_type=wanted)
        assert refused.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    assert cluster(member, endpoint_type=7).error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE


def test_features_are_at_the_levels_and_the_epoch_of_the_image() -> None:
    images = ScriptedImages()
    member = FollowingMember(kraft_version=1)
    member.show(images.image)
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    answer = Asker(member.broker).ask(request, 4)
    finalized = {one.name: one.max_version_level for one in answer.finalized_features}
    assert finalized == {"metadata.version": 21, "kraft.version": 1}
    assert answer.finalized_features_epoch == images.image.end_offset - 1
    assert "metadata.version" in [one.name for one in answer.supported_features]


def test_eligible_leaders_are_described_with_their_partitions() -> None:
    images = ScriptedImages()
    images.create("orders", 70, (1, 2, 3))
    images.change(70, isr=[1], eligible_leader_replicas=[2], last_known_elr=[3])
    member = FollowingMember()
    member.show(images.image)
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="orders")])
    (topic,) = Asker(member.broker, client=AT_BROKER).ask(request, 0).topics
    (partition,) = topic.partitions
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([2], [3])


@pytest.mark.parametrize("is_fenced", [False, True])
def test_a_coordinator_is_a_live_broker_that_leads_its_partition(is_fenced: bool) -> None:
    images = ScriptedImages()
    images.create(CONSUMER_OFFSETS, 70, *([(2, 3)] * 5))
    if is_fenced:
        fence(images, OTHER)
    member = FollowingMember()
    member.show(images.image)
    request = FindCoordinatorRequest(key="workers")
    answer = Asker(member.broker, client=AT_BROKER).ask(request, 3)
    expected = ErrorCode.COORDINATOR_NOT_AVAILABLE if is_fenced else ErrorCode.NONE
    assert (answer.error_code, answer.node_id) == (expected, -1 if is_fenced else OTHER)


def test_a_quorum_of_one_node_has_peers_too() -> None:
    assert FollowingMember().broker.view.has_peers
