"""Nodes of ZooKeeper, in the versions and with the mistakes that no recording has."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.principal import Principal
from ottla.base.scram import ScramCredential
from ottla.metadata.acls import (
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from ottla.metadata.brokers import BrokerRegistration, Endpoint
from ottla.metadata.tokens import DelegationToken
from ottla.zookeeper import access, consumers, controllers, entities, notices, paths
from ottla.zookeeper.brokers import decode_broker, encode_broker
from ottla.zookeeper.nodes import NodeError
from ottla.zookeeper.topics import (
    RECOVERING,
    PartitionState,
    ReplicaAssignment,
    TopicAssignment,
    decode_state,
    decode_topic,
    encode_state,
    encode_topic,
)

ORDERS_0 = TopicPartition("orders", 0)

DECODERS: dict[str, Callable[[bytes | None], Any]] = {
    "broker": lambda content: decode_broker(1, content),
    "topic": lambda content: decode_topic("orders", content),
    "state": lambda content: decode_state(ORDERS_0, content),
    "controller": controllers.decode_controller,
    "controller epoch": controllers.decode_controller_epoch,
    "cluster id": controllers.decode_cluster_id,
    "producer ids": controllers.decode_producer_ids,
    "features": controllers.decode_features,
    "config": lambda content: entities.decode_config("topics/orders", content),
    "reassignment": notices.decode_reassignment,
    "partitions": notices.decode_partitions,
    "log dir event": lambda content: notices.decode_log_dir_event(content, "/e"),
    "config change": lambda content: notices.decode_config_change(content, "/c"),
    "acls": lambda content: access.decode_acls("/kafka-acl/Topic/t", content),
    "acl change": lambda content: access.decode_acl_change("/a", content),
    "token": lambda content: access.decode_token("t", content),
    "consumer": lambda content: consumers.decode_consumer("/consumers/g/ids/c", content),
    "offset": lambda content: consumers.decode_offset("/consumers/g/offsets/t/0", content),
}

SAMPLES = (
    b'{"version":4,"endpoints":["A://h:1"],"listener_security_protocol_map":{},"jmx_port":1}',
    b'{"version":1,"partitions":{"0":[true]}}',
    b'{"leader":"1","leader_epoch":0,"controller_epoch":1,"isr":[]}',
    b'{"version":1,"status":2,"features":{}}',
    b'{"version":3,"entity_path":"topics/a"}',
    b'{"version":1,"partitions":[{"topic":1,"partition":"x"}]}',
    b"[" * 100_000,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=6,
)


@pytest.mark.parametrize("kind", DECODERS)
@given(content=st.binary(max_size=40) | JSON.map(lambda value: json.dumps(value).encode()))
@settings(max_examples=30)
def test_garbage_is_read_or_refused_with_our_error(kind: str, content: bytes) -> None:
    check_refusal(kind, content)


@pytest.mark.parametrize("kind", DECODERS)
def test_a_node_with_a_wrong_field_is_read_or_refused_with_our_error(kind: str) -> None:
    for content in SAMPLES:
        check_refusal(kind, content)


def check_refusal(kind: str, content: bytes) -> None:
    with suppress(NodeError):
        DECODERS[kind](content)


def test_a_wrong_node_is_named() -> None:
    with pytest.raises(NodeError, match="/brokers/topics/orders/partitions/0/state is not what"):
        decode_state(ORDERS_0, b"{}")


def test_a_broker_is_read_in_every_version() -> None:
    def endpoint(listener: str, port: int, protocol: str) -> Endpoint:
        return Endpoint(listener=listener, host="h", port=port, security_protocol=protocol)

    common = {"host": "h", "port": 1, "jmx_port": 9, "timestamp": "5", "unknown": []}
    first = decode_broker(1, json.dumps({"version": 1, **common}).encode())
    assert first.endpoints == (endpoint("PLAINTEXT", 1, "PLAINTEXT"),)
    assert (first.jmx_port, first.timestamp_ms) == (9, 5)
    with_endpoints = {**common, "endpoints": ["PLAINTEXT://h:1", "SSL://h:2"], "rack": "r"}
    third = decode_broker(1, json.dumps({"version": 3, **with_endpoints}).encode())
    assert third.endpoints[1] == endpoint("SSL", 2, "SSL")
    assert third.rack == "r"
    with pytest.raises(NodeError, match="version 0"):
        decode_broker(1, json.dumps({"version": 0, **common}).encode())


def test_a_broker_without_a_plaintext_listener_has_no_host_for_old_clients() -> None:
    broker = BrokerRegistration(
        endpoints=(Endpoint(listener="IN", host="::1", port=3, security_protocol="SASL_SSL"),),
        rack="r1",
        features={"f": {"min_version": 1, "max_version": 2}},
        timestamp_ms=7,
    )
    assert encode_broker(broker) == (
        b'{"features":{"f":{"min_version":1,"max_version":2}},"listener_security_protocol_map":'
        b'{"IN":"SASL_SSL"},"endpoints":["IN://[::1]:3"],"rack":"r1","jmx_port":-1,"port":-1,'
        b'"host":null,"version":5,"timestamp":"7"}'
    )
    assert decode_broker(1, encode_broker(broker)) == broker


def test_a_topic_is_read_in_every_version() -> None:
    assert decode_topic("t", b'{"version":1,"partitions":{"1":[2,3]}}') == TopicAssignment(
        partitions={1: ReplicaAssignment((2, 3))}
    )
    whole = TopicAssignment(
        partitions={
            10: ReplicaAssignment((1,)),
            2: ReplicaAssignment((3, 1, 2), adding=(3,), removing=(2,)),
        },
        topic_id=Uuid(bytes(range(16))),
    )
    assert decode_topic("t", encode_topic(whole)) == whole
    assert encode_topic(whole).startswith(b'{"partitions":{"2":[3,1,2],"10":[1]},"topic_id"')


def test_a_partition_that_recovers_from_an_unclean_election_says_so() -> None:
    state = PartitionState(
        leader=1, leader_epoch=4, controller_epoch=2, isr=(1,), recovery_state=RECOVERING
    )
    assert encode_state(state) == (
        b'{"controller_epoch":2,"leader":1,"version":1,"leader_recovery_state":1,'
        b'"leader_epoch":4,"isr":[1]}'
    )
    assert decode_state(ORDERS_0, encode_state(state)) == state


def test_an_assignment_knows_where_it_comes_from_and_goes_to() -> None:
    moving = ReplicaAssignment((1, 2, 3)).to_target((4, 1))
    assert moving == ReplicaAssignment((4, 1, 2, 3), adding=(4,), removing=(2, 3))
    assert (moving.origin, moving.target) == ((1, 2, 3), (4, 1))
    other = moving.to_target((2, 5))
    assert other == ReplicaAssignment((2, 5, 1, 3), adding=(5,), removing=(1, 3))
    assert not ReplicaAssignment((1, 2)).to_target((2, 1)).is_reassigning


def test_the_controller_of_an_old_broker_has_no_kraft_epoch() -> None:
    old = controllers.decode_controller(b'{"version":1,"brokerid":3,"timestamp":"7"}')
    assert old == controllers.ControllerRegistration(broker_id=3, timestamp_ms=7)


def test_blocks_of_producer_ids_follow_each_other() -> None:
    first = controllers.next_producer_ids(None, 1)
    second = controllers.next_producer_ids(first, 2)
    assert (first.start, first.end, second.start, second.end) == (0, 999, 1000, 1999)
    assert controllers.decode_producer_ids(None) is None


def test_names_of_users_are_nodes_names_as_java_writes_them() -> None:
    for name, node in {
        "alice": "alice",
        "CN=a b, O=ü*~": "CN%3Da%20b%2C%20O%3D%C3%BC%2A%7E",
        "a/b.c-d_e": "a%2Fb.c-d_e",
        None: "<default>",
    }.items():
        assert paths.sanitized(name) == node
        assert paths.desanitized(node) == name


def test_a_scram_credential_is_a_setting_of_its_user() -> None:
    credential = ScramCredential(
        salt=b"\0\1", stored_key=b"s" * 32, server_key=b"k" * 32, iterations=4096
    )
    text = entities.encode_scram(credential)
    assert text.startswith("salt=AAE=,stored_key=c3Nz")
    assert text.endswith("=,iterations=4096")
    assert entities.decode_scram(text) == credential
    for broken in ("", "salt=AAE=", text.replace("4096", "many"), text.replace("AAE=", "?")):
        with pytest.raises(ValueError, match="not a SCRAM credential"):
            entities.decode_scram(broken)


def test_acls_and_their_changes_are_written_as_kafka_writes_them() -> None:
    entry = Entry("User:a", "*", Operation.READ, Permission.ALLOW)
    content = access.encode_acls((entry,))
    assert content == (
        b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Allow","operation":"Read",'
        b'"host":"*"}]}'
    )
    assert access.decode_acls("/p", content) == (entry,)
    literal = ResourcePattern(ResourceType.GROUP, PatternType.LITERAL, "a:b")
    assert access.encode_acl_change(literal) == b"GROUP:a:b"
    prefixed = ResourcePattern(ResourceType.TRANSACTIONAL_ID, PatternType.PREFIXED, "a")
    for one in (literal, prefixed):
        assert access.decode_acl_change("/p", access.encode_acl_change(one)) == one
    assert access.acl_path(literal) == "/kafka-acl/Group/a:b"
    assert access.acl_path(prefixed) == "/kafka-acl-extended/prefixed/TransactionalId/a"


def test_a_rule_of_a_later_kafka_stays_as_it_is_written_and_is_named() -> None:
    content = (
        b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Allow","operation":"Juggle",'
        b'"host":"*"}]}'
    )
    entries = access.decode_acls("/p", content)
    assert access.encode_acls(entries) == content
    topic = ResourcePattern(ResourceType.TOPIC, PatternType.LITERAL, "t")
    with pytest.raises(ValueError, match="of Topic t has the Operation Juggle"):
        access.known_entries(topic, entries)
    planet = access.decode_acl_change("/p", b"PLANET:t")
    assert planet == access.pattern_at(PatternType.LITERAL, "Planet", "t")
    assert access.acl_path(planet) == "/kafka-acl/Planet/t"
    with pytest.raises(ValueError, match="of t has the ResourceType Planet, which is not known"):
        access.known_entries(planet, ())


def test_a_delegation_token_survives_the_way_there_and_back() -> None:
    owner, requester, renewer = (Principal("User", name) for name in "abc")
    token = DelegationToken(
        token_id="t", owner=owner, requester=requester, renewers=(renewer,),
        issued_ms=1, expires_ms=2, max_ms=3,
    )  # fmt: skip
    assert access.decode_token("t", access.encode_token(token)) == token


def test_the_old_consumer_s_nodes_survive_the_way_there_and_back() -> None:
    consumer = consumers.ConsumerRegistration(
        subscription={"orders": 2}, pattern=consumers.SubscriptionPattern.WHITE_LIST, timestamp_ms=4
    )
    content = consumers.encode_consumer(consumer)
    assert consumers.decode_consumer("/p", content) == consumer
    assert consumers.decode_offset("/p", consumers.encode_offset(12)) == 12


def test_a_change_of_settings_is_read_in_both_versions() -> None:
    old = b'{"version":1,"entity_type":"topics","entity_name":"orders"}'
    new = notices.encode_config_change("topics/orders")
    assert {notices.decode_config_change(one, "/c") for one in (old, new)} == {"topics/orders"}
