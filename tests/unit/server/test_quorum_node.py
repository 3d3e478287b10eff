"""What a node of a KRaft cluster answers, and where: clients are passed on to the controller."""

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, ProtocolError
from ottla.base.principal import ANONYMOUS, Principal
from ottla.base.resource_kinds import ResourceKind
from ottla.base.turns import result_of
from ottla.broker.membership.membership import QuorumMembership
from ottla.broker.quotas.quota_changes import QuotaAlteration
from ottla.broker.waiting.rooms import Waiting
from ottla.codec.primitives import Output
from ottla.metadata.acls import (
    Acl,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.headers import RequestHeader, encode_request, encode_response
from ottla.protocol.messages import controller_registration as registering
from ottla.protocol.messages import request_class
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.protocol.messages.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionRequest,
    BrokerState,
)
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.assign_replicas_to_dirs import (
    AssignedDirectory,
    AssignedPartition,
    AssignedTopic,
    AssignReplicasToDirsRequest,
)
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.protocol.messages.controller_registration import ControllerRegistrationRequest
from ottla.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.envelope import EnvelopeRequest
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from ottla.protocol.messages.unregister_broker import UnregisterBrokerRequest
from ottla.protocol.messages.unregister_controller import UnregisterControllerRequest
from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.protocol.messages.vote import VoteRequest
from ottla.protocol.principal_data import encode_principal
from ottla.quorum.messages import Known, Request, Response, UpgradeVersion, VoterAnswer
from ottla.server.dispatching.apis import APIS_OF, QUORUM_APIS, Door
from ottla.server.dispatching.metering import Held
from ottla.server.dispatching.request_context import Client
from tests.support.asking import ADDRESS, CORRELATION_ID, Asker
from tests.support.lonely_node import ME, LonelyNode, registration
from tests.unit.server.authorization.row import error_codes
from tests.unit.server.test_metering import Slow

ALICE = Principal("User", "alice")
BROKER = Principal("User", "broker")


def _frame(request, version):
    output = Output()
    header = RequestHeader(request.API_KEY, version, CORRELATION_ID, "test")
    encode_request(header, request, output)
    return output.read_all()[4:]


def _creation(*names):
    topics = [CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in names]
    return CreateTopicsRequest(topics=topics)


def _enveloped(node, request, version, principal=ALICE, asker=None):
    """The response to a request in an Envelope, and that of the Envelope."""
    envelope = EnvelopeRequest(
        request_data=_frame(request, version),
        request_principal=encode_principal(principal, is_by_token=False),
        client_host_address=bytes([10, 0, 0, 7]),
    )
    response = node._asked(asker or node.node, envelope, 0)
    if response.response_data is None:
        return None, response
    output = Output()
    output.data += len(response.response_data).to_bytes(4, "big") + response.response_data
    return node.node.decode(request, version, output), response


def _pass_on(node):
    """Has the controller answer the oldest request that was to be forwarded."""
    frame, principal, host, is_by_token, _ = node.forwarded[0]
    envelope = EnvelopeRequest(
        request_data=frame,
        request_principal=encode_principal(principal, is_by_token=is_by_token),
        client_host_address=bytes(map(int, host.split("."))),
    )
    response = node.ask_node(envelope, 0)
    node.answer(response.response_data or ApiError(ErrorCode(response.error_code)))


def _forwarded(node, request, version):
    """The response to a client's request, which the controller answers."""
    later, output = node.client.send(request, version)
    if node.forwarded:
        _pass_on(node)
    while later is not None:
        node.broker.answers.take_answered(0.0)
        later, output = node.client.go_on(later)
    return node.client.decode(request, version, output)


# Which listener answers what


@pytest.mark.parametrize(
    ("listener", "request_", "version"),
    [
        ("CONTROLLER", MetadataRequest(), 12),
        ("PLAINTEXT", VoteRequest(), 1),
        ("PLAINTEXT", EnvelopeRequest(), 0),
        ("PLAINTEXT", registration(2), 4),
        ("PLAINTEXT", AlterPartitionRequest(), 3),
    ],
)
def test_a_request_on_the_wrong_listener_ends_its_connection(listener, request_, version):
    node = LonelyNode()
    asker = node.node if listener == "CONTROLLER" else node.client

    with pytest.raises(ProtocolError, match="is not supported"):
        asker.send(request_, version)


@pytest.mark.parametrize("door", [Door.QUORUM, Door.CONTROLLER])
def test_api_versions_lists_what_its_listener_answers(door):
    node = LonelyNode()
    asker = node.node if door is Door.CONTROLLER else node.client

    response = asker.ask(
        ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3
    )

    listed = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
    assert listed == {
        key: (api.oldest, api.newest) for key, api in APIS_OF[door].items() if api.is_listed
    }


def test_what_is_passed_on_is_listed_as_far_as_the_controller_knows_it():
    node = LonelyNode()
    node.newest = {ApiKey.UPDATE_FEATURES: 1, ApiKey.CREATE_TOPICS: 9}
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")

    listed = {one.api_key: one.max_version for one in node.client.ask(request, 3).api_keys}

    assert listed[ApiKey.UPDATE_FEATURES] == 1
    assert listed[ApiKey.CREATE_TOPICS] == APIS_OF[Door.QUORUM][ApiKey.CREATE_TOPICS].newest


RECORDED_ON_CONTROLLERS = {
    1, 17, 18, 19, 20, 29, 30, 31, 32, 33, 36, 37, 38, 39, 40, 41, 43, 44, 45, 46, 49, 50, 51,
    52, 53, 54, 55, 56, 57, 58, 59, 60, 62, 63, 64, 67, 70, 73, 80, 81, 82,
}  # fmt: skip
"""What controllers of Kafka 3.9 list, but for ControlledShutdown, which is ZooKeeper's."""


def test_a_controllers_listener_answers_what_those_of_kafka_were_recorded_to_answer():
    later = {ApiKey.UNREGISTER_CONTROLLER}  # Kafka 4.4's
    assert set(APIS_OF[Door.CONTROLLER]) == RECORDED_ON_CONTROLLERS | later


def test_a_brokers_listener_has_what_the_controller_answers_and_nothing_of_zookeepers():
    ours = set(APIS_OF[Door.QUORUM])

    assert {ApiKey.DESCRIBE_QUORUM, ApiKey.UPDATE_FEATURES, ApiKey.UNREGISTER_BROKER} <= ours
    assert {ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER} <= ours
    assert not ours & {
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.ALTER_PARTITION,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.VOTE,
        ApiKey.ENVELOPE,
    }


def test_a_node_of_a_quorum_is_told_by_its_membership():
    assert isinstance(LonelyNode(), QuorumMembership)


# Passing on


def test_what_a_client_asks_is_passed_on_as_it_came():
    node = LonelyNode()
    later, _ = node.client.send(_creation("t"), 7)

    ((frame, principal, host, is_by_token, waiting),) = node.forwarded
    assert frame == _frame(_creation("t"), 7)
    assert (principal, host, is_by_token) == (node.client.client.principal, "10.0.0.9", False)
    assert later is not None
    assert later.pending_id is waiting


def test_a_topic_that_a_client_asks_a_broker_for_is_made_by_the_controller():
    node = LonelyNode()

    response = _forwarded(node, _creation("t", "u"), 7)

    assert [(one.name, one.error_code, one.num_partitions) for one in response.topics] == [
        ("t", 0, 2),
        ("u", 0, 2),
    ]
    assert set(node.quorum.controller.image.topics) == {"t", "u"}
    assert node.broker.catalog.find("t") is not None
    deleted = _forwarded(node, DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]), 6)
    assert [one.error_code for one in deleted.responses] == [0]
    assert set(node.quorum.controller.image.topics) == {"u"}


@pytest.mark.parametrize("code", [ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT])
def test_without_a_controller_every_element_says_so_or_that_it_has_timed_out(code):
    node = LonelyNode()
    node.leads = False
    later, _ = node.client.send(_creation("t", "u"), 7)

    node.answer(ApiError(code))
    output = Output()
    while later is not None:
        node.broker.answers.take_answered(0.0)
        later, output = node.client.go_on(later)

    response = node.client.decode(_creation("t", "u"), 7, output)
    assert [one.error_code for one in response.topics] == [code] * 2


def test_a_version_that_the_controller_does_not_know_ends_the_connection():
    node = LonelyNode()
    later, _ = node.client.send(_creation("t"), 7)
    assert later is not None

    node.answer(ApiError(ErrorCode.UNSUPPORTED_VERSION))
    node.broker.answers.take_answered(0.0)

    with pytest.raises(ProtocolError, match="does not answer CREATE_TOPICS in version 7"):
        node.client.go_on(later)


def test_a_response_that_comes_from_the_controller_is_the_clients():
    node = LonelyNode()
    later, _ = node.client.send(_creation("t"), 7)
    assert later is not None
    theirs = Output()
    header = RequestHeader(ApiKey.CREATE_TOPICS, 7, CORRELATION_ID)
    encode_response(header, CreateTopicsResponse(throttle_time_ms=0, topics=[]), theirs)

    node.answer(theirs.read_all()[4:])
    node.broker.answers.take_answered(0.0)
    _, output = node.client.go_on(later)

    assert output.read_all() == theirs.read_all()


# Settings


def _settings(*resources):
    return IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[AlterableConfig(name=key, config_operation=0, value=value)],
            )
            for kind, name, key, value in resources
        ]
    )


def test_levels_of_loggers_stay_with_the_broker_and_other_settings_are_passed_on():
    node = LonelyNode()

    response = _forwarded(
        node,
        _settings(
            (ResourceKind.BROKER_LOGGER, str(ME), "no.such.logger", "INFO"),
            (ResourceKind.BROKER, str(ME), "log.cleaner.threads", "2"),
            (ResourceKind.GROUP, "g", "consumer.session.timeout.ms", "50000"),
        ),
        1,
    )

    assert sorted((one.resource_type, one.error_code) for one in response.responses) == [
        (ResourceKind.BROKER, 0),
        (ResourceKind.BROKER_LOGGER, ErrorCode.INVALID_CONFIG),
        (ResourceKind.GROUP, 0),
    ]
    image = node.quorum.controller.image
    assert image.configs_of(ResourceKind.BROKER, str(ME)) == {"log.cleaner.threads": "2"}


def test_only_loggers_ask_no_controller():
    node = LonelyNode()

    response = node.client.ask(_settings((ResourceKind.BROKER_LOGGER, str(ME), "root", "INFO")), 1)

    assert [one.error_code for one in response.responses] == [0]
    assert node.forwarded == []


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [("2", "log.cleaner.threads", "3"), (str(ME), "listeners", "PLAINTEXT://:9092,nowhere")],
)
def test_a_broker_refuses_what_it_could_not_follow_before_it_asks_the_controller(name, key, value):
    node = LonelyNode()

    response = node.client.ask(_settings((ResourceKind.BROKER, name, key, value)), 1)

    (refused,) = response.responses
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert node.forwarded == []


# Envelopes


def test_a_request_in_an_envelope_is_answered_as_if_its_client_had_asked():
    node = LonelyNode()

    response, outer = _enveloped(node, _creation("t"), 7)

    assert outer.error_code == 0
    assert [one.error_code for one in response.topics] == [0]


def test_a_node_that_does_not_lead_says_so_outside():
    node = LonelyNode()
    node.leads = False

    response, outer = _enveloped(node, _creation("t"), 7)

    assert response is None
    assert outer.error_code == ErrorCode.NOT_CONTROLLER


@pytest.mark.parametrize(
    ("envelope", "code"),
    [
        (EnvelopeRequest(request_principal=b"?"), ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (EnvelopeRequest(request_principal=None), ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (
            EnvelopeRequest(
                request_principal=encode_principal(ALICE, is_by_token=False),
                client_host_address=b"abc",
            ),
            ErrorCode.INVALID_REQUEST,
        ),
        (
            EnvelopeRequest(
                request_data=b"garbage",
                request_principal=encode_principal(ALICE, is_by_token=False),
                client_host_address=bytes(4),
            ),
            ErrorCode.INVALID_REQUEST,
        ),
        (
            EnvelopeRequest(
                request_data=_frame(MetadataRequest(), 12),
                request_principal=encode_principal(ALICE, is_by_token=False),
                client_host_address=bytes(4),
            ),
            ErrorCode.INVALID_REQUEST,
        ),
    ],
)
def test_an_envelope_that_cannot_be_opened_is_refused(envelope, code):
    response = LonelyNode().ask_node(envelope, 0)

    assert response.response_data is None
    assert response.error_code == code


def _allow(node, principal, operation, kind=ResourceType.CLUSTER, name="kafka-cluster"):
    rule = Acl(
        ResourcePattern(kind, PatternType.LITERAL, name),
        Entry(str(principal), "*", operation, Permission.ALLOW),
    )
    result_of(node.quorum.controller.create_acls([rule]))
    node.publish()


def test_what_is_in_an_envelope_is_authorized_for_its_client_and_the_envelope_for_its_broker():
    node = LonelyNode(
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        super_users="User:ANONYMOUS",
    )
    asker = Asker(node.broker, client=Client(ADDRESS, "10.0.0.8", BROKER, "CONTROLLER"))

    _, outer = _enveloped(node, _creation("t"), 7, asker=asker)
    assert outer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    _allow(node, BROKER, Operation.CLUSTER_ACTION)
    response, outer = _enveloped(node, _creation("t"), 7, asker=asker)
    assert outer.error_code == 0
    assert [one.error_code for one in response.topics] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]

    _allow(node, ALICE, Operation.CREATE, ResourceType.TOPIC, "t")
    response, _ = _enveloped(node, _creation("t"), 7, asker=asker)
    assert [one.error_code for one in response.topics] == [0]


@pytest.fixture(scope="module")
def guarded_node():
    return LonelyNode(
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        super_users="User:ANONYMOUS",
    )


@pytest.mark.parametrize("key", sorted(QUORUM_APIS))
def test_what_nodes_ask_is_refused_to_whom_no_rule_allows_it(guarded_node, key):
    asker = Asker(guarded_node.broker, client=Client(ADDRESS, "10.0.0.8", ALICE, "CONTROLLER"))

    response = asker.ask(request_class(key)(), QUORUM_APIS[key].newest)

    assert ErrorCode.CLUSTER_AUTHORIZATION_FAILED in error_codes(response)


def test_the_metadata_log_is_refused_to_whom_no_rule_allows_it(guarded_node):
    asker = Asker(guarded_node.broker, client=Client(ADDRESS, "10.0.0.8", ALICE, "CONTROLLER"))

    response = asker.ask(FetchRequest(), 17)

    assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_quotas_hold_back_who_asks_a_broker_and_no_broker_that_passes_it_on():
    node = LonelyNode()
    quota = QuotaAlteration(names=[("user", "ANONYMOUS")], limits={"request_percentage": 0.0001})
    result_of(node.quorum.controller.alter_quotas([quota], lambda one: one, validate_only=False))
    node.publish()

    slow = Asker(node.broker, clock=Slow(), client=node.node.client)
    client = Asker(node.broker, clock=Slow(), client=node.client.client)

    _, outer = _enveloped(node, _creation("t"), 7, principal=ANONYMOUS, asker=slow)
    later, output = client.send(_creation("u"), 7)
    _pass_on(node)
    node.broker.answers.take_answered(0.0)
    assert later is not None
    later, output = client.go_on(later)

    assert outer.error_code == 0
    assert isinstance(later, Held)
    assert client.decode(_creation("u"), 7, output).throttle_time_ms > 0


def _token_client(protocol):
    node = LonelyNode(delegation_token_secret_key="secret")
    client = Client(ADDRESS, "10.0.0.9", ALICE, protocol=protocol)
    node.client = Asker(node.broker, client=client)
    return node


def test_a_token_is_made_renewed_and_expired_by_the_controller():
    node = _token_client("SASL_PLAINTEXT")

    made = _forwarded(node, CreateDelegationTokenRequest(max_lifetime_ms=-1), 3)
    renewal = RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=-1)
    renewed = _forwarded(node, renewal, 2)
    expiry = ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=-1)
    expired = _forwarded(node, expiry, 2)
    again = _forwarded(node, renewal, 2)

    assert (made.error_code, made.principal_name) == (0, "alice")
    assert (renewed.error_code, expired.error_code) == (0, 0)
    assert again.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert node.quorum.controller.image.tokens == {}


def test_a_client_on_a_listener_without_logins_gets_no_token():
    node = _token_client("PLAINTEXT")

    refused = node.client.ask(CreateDelegationTokenRequest(max_lifetime_ms=-1), 3)

    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert node.forwarded == []


# What nodes ask


def test_a_broker_registers_and_is_unfenced_when_it_has_its_own_record():
    node = LonelyNode()
    epoch = node.ask_node(registration(2), 4).broker_epoch

    behind = node.ask_node(
        BrokerHeartbeatRequest(broker_id=2, broker_epoch=epoch, current_metadata_offset=epoch - 1),
        1,
    )
    caught_up = node.ask_node(
        BrokerHeartbeatRequest(broker_id=2, broker_epoch=epoch, current_metadata_offset=epoch), 1
    )
    stale = node.ask_node(BrokerHeartbeatRequest(broker_id=2, broker_epoch=epoch + 1), 1)
    other = node.ask_node(registration(2, incarnation=2), 4)

    assert (behind.is_caught_up, behind.is_fenced) == (False, True)
    assert (caught_up.is_caught_up, caught_up.is_fenced) == (True, False)
    assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH
    assert other.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_a_leader_asks_for_another_isr_with_the_epochs_of_its_brokers():
    node = LonelyNode()
    _forwarded(node, _creation("t"), 7)
    topic_id = node.quorum.controller.image.topics["t"].topic_id

    def asked(epoch):
        partition = AlteredPartition(
            leader_epoch=0, new_isr_with_epochs=[BrokerState(broker_id=ME, broker_epoch=epoch)]
        )
        topic = AlteredTopic(topic_id=topic_id, partitions=[partition])
        request = AlterPartitionRequest(broker_id=ME, broker_epoch=node.epoch, topics=[topic])
        return node.ask_node(request, 3)

    (topic,) = asked(node.epoch).topics
    assert (topic.topic_id, topic.partitions[0].error_code) == (topic_id, 0)
    assert topic.partitions[0].isr == [ME]
    (topic,) = asked(node.epoch + 7).topics
    assert topic.partitions[0].error_code == ErrorCode.INELIGIBLE_REPLICA


def test_blocks_of_producer_ids_directories_and_controllers_are_the_controllers_to_decide():
    node = LonelyNode()
    _forwarded(node, _creation("t"), 7)
    topic = node.quorum.controller.image.topics["t"]
    directory = node.quorum.controller.image.brokers[ME].directories[0]

    ids = node.ask_node(AllocateProducerIdsRequest(broker_id=ME, broker_epoch=node.epoch), 0)
    assigned = node.ask_node(
        AssignReplicasToDirsRequest(
            broker_id=ME,
            broker_epoch=node.epoch,
            directories=[
                AssignedDirectory(
                    id=directory,
                    topics=[
                        AssignedTopic(
                            topic_id=topic.topic_id,
                            partitions=[
                                AssignedPartition(partition_index=one) for one in (0, 1, 5)
                            ],
                        )
                    ],
                )
            ],
        ),
        0,
    )
    registered = node.ask_node(ControllerRegistrationRequest(controller_id=ME), 0)

    assert (ids.producer_id_start, ids.producer_id_len) == (0, 1000)
    (found,) = assigned.directories
    assert [one.error_code for one in found.topics[0].partitions] == [
        0,
        0,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert registered.error_code == ErrorCode.INVALID_REGISTRATION


def test_a_broker_is_unregistered_and_a_feature_refused_as_kafkas_controller_says_it():
    node = LonelyNode()
    node.ask_node(registration(2), 4)

    gone = _forwarded(node, UnregisterBrokerRequest(broker_id=2), 0)
    unknown = _forwarded(node, UnregisterBrokerRequest(broker_id=77), 0)
    update = UpdateFeaturesRequest(
        feature_updates=[FeatureUpdateKey(feature="metadata.version", max_version_level=99)]
    )
    refused = _forwarded(node, update, 1)

    assert (gone.error_code, gone.error_message) == (0, "")
    assert 2 not in node.quorum.controller.image.brokers
    assert unknown.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert refused.error_code == 0
    assert [one.error_code for one in refused.results] == [ErrorCode.INVALID_UPDATE_VERSION]
    assert _forwarded(node, update, 2).error_code == ErrorCode.INVALID_UPDATE_VERSION


def test_a_controller_is_unregistered_once_the_level_has_it():
    node = LonelyNode()
    gone = UnregisterControllerRequest(controller_id=77)
    too_old = _forwarded(node, gone, 0)
    assert too_old.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert "33 (4.4-IV2) is needed" in too_old.error_message

    _forwarded(node, UnregisterBrokerRequest(broker_id=ME), 0)  # it knows older levels only
    raised = FeatureUpdateKey(feature="metadata.version", max_version_level=33)
    assert not _forwarded(node, UpdateFeaturesRequest(feature_updates=[raised]), 2).error_code
    assert _forwarded(node, gone, 0).error_code == ErrorCode.CONTROLLER_ID_NOT_REGISTERED
    listener = registering.Listener(name="CONTROLLER", host="h", port=9093)
    old = ControllerRegistrationRequest(controller_id=77, listeners=[listener])
    assert not node.ask_node(old, 0).error_code
    assert 77 in node.quorum.controller.image.controllers
    done = _forwarded(node, gone, 0)
    assert (done.error_code, done.error_message) == (0, "")
    assert 77 not in node.quorum.controller.image.controllers


class UpgradingNode(LonelyNode):
    """The quorum answers what it is told to."""

    def __init__(self, answer: VoterAnswer) -> None:
        super().__init__()
        self._answer = answer
        self.asked: list[Request] = []

    def receive(self, request: Request) -> Waiting[Response]:
        self.asked.append(request)
        waiting: Waiting[Response] = Waiting()
        waiting.result = self._answer
        self._done.append(waiting)
        return waiting


def test_kraft_version_is_raised_by_the_quorum_itself():
    update = UpdateFeaturesRequest(
        feature_updates=[FeatureUpdateKey(feature="kraft.version", max_version_level=1)]
    )
    node = UpgradingNode(VoterAnswer(ErrorCode.NONE, Known(3)))
    assert [one.error_code for one in _forwarded(node, update, 1).results] == [0]
    assert node.asked == [UpgradeVersion(1, 10_000)]
    reason = "Node 2 does not support kraft.version 1."
    refusal = VoterAnswer(ErrorCode.INVALID_UPDATE_VERSION, Known(3), reason)
    (refused,) = _forwarded(UpgradingNode(refusal), update, 1).results
    assert (refused.error_code, refused.error_message) == (ErrorCode.INVALID_UPDATE_VERSION, reason)


def test_who_does_not_lead_refuses_nodes_with_its_code():
    node = LonelyNode()
    node.leads = False

    for request, version in (
        (registration(2), 4),
        (BrokerHeartbeatRequest(broker_id=2), 1),
        (AllocateProducerIdsRequest(broker_id=2), 0),
        (AlterPartitionRequest(broker_id=2), 3),
        (AssignReplicasToDirsRequest(broker_id=2), 0),
        (ControllerRegistrationRequest(controller_id=2), 0),
    ):
        assert node.ask_node(request, version).error_code == ErrorCode.NOT_CONTROLLER


def test_a_topic_can_be_deleted_by_its_id_as_soon_as_the_client_knows_it():
    node = LonelyNode()
    node.shows_at_once = False
    (made,) = _forwarded(node, _creation("t"), 7).topics
    assert node.broker.catalog.find("t") is None
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=made.topic_id)])

    later, output = node.node.send(request, 6)
    assert later is not None
    node.broker.answers.take_answered(0.0)
    assert later.pending_id.result is None
    node.publish()
    while later is not None:
        node.broker.answers.take_answered(0.0)
        later, output = node.node.go_on(later)

    (deleted,) = node.node.decode(request, 6, output).responses
    assert (deleted.name, deleted.error_code) == ("t", 0)
