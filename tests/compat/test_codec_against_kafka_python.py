"""Ottla's messages beside those of kafka-python 3, down to version 0."""

import importlib
import pkgutil
from functools import cache
from typing import Any

import kafka.protocol
import pytest
from kafka.protocol.api_message import ApiMessage

from ottla.codec.schema import Message
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.api_versions import ApiVersionsResponse
from tests.compat.messages import APIS, decoded, encoded, samples, versions_of

UNKNOWN_TO_KAFKA_PYTHON = {
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN,
    ApiKey.ALTER_PARTITION,
    ApiKey.ALLOCATE_PRODUCER_IDS,
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    ApiKey.PUSH_TELEMETRY,
    ApiKey.VOTE,
    ApiKey.BEGIN_QUORUM_EPOCH,
    ApiKey.END_QUORUM_EPOCH,
    ApiKey.ENVELOPE,
    ApiKey.FETCH_SNAPSHOT,
    ApiKey.BROKER_REGISTRATION,
    ApiKey.BROKER_HEARTBEAT,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.UNREGISTER_CONTROLLER,
    ApiKey.CONTROLLER_REGISTRATION,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    *range(ApiKey.ADD_RAFT_VOTER, ApiKey.UPDATE_RAFT_VOTER + 1),
    *range(ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.SHARE_ACKNOWLEDGE + 1),
    *range(ApiKey.INITIALIZE_SHARE_GROUP_STATE, ApiKey.READ_SHARE_GROUP_STATE_SUMMARY + 1),
    *range(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, ApiKey.DELETE_SHARE_GROUP_OFFSETS + 1),
}


@cache
def their_classes() -> dict[str, Any]:
    """kafka-python's messages by Kafka's names."""
    found: dict[str, Any] = {}
    for module in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
        if ".old" in module.name or module.name.endswith("generate_stubs"):
            continue
        for value in vars(importlib.import_module(module.name)).values():
            is_message = isinstance(value, type) and issubclass(value, ApiMessage)
            if is_message and value is not ApiMessage:
                found[f"{value.API_KEY} {value.type}"] = value
    return found


def their_class(message: type[Message]) -> Any:
    kind = "request" if message.__name__.endswith("Request") else "response"
    return their_classes().get(f"{message.API_KEY} {kind}")


@pytest.mark.parametrize("api_key", APIS, ids=lambda key: key.name)
def test_kafka_python_reads_what_we_write_and_writes_the_same_bytes(api_key: ApiKey) -> None:
    count = 0
    for message, version in versions_of(api_key):
        theirs = their_class(message)
        if theirs is None or version > theirs.max_version:
            continue
        for ours, data in samples(message, version):
            if isinstance(ours, ApiVersionsResponse):
                # With an error it always reads version 0, as a client that was refused must.
                ours.error_code = 0
                data = encoded(ours, version)
            value = theirs.decode(data, version=version)
            value._header = None
            again = bytes(value.encode(version=version))
            assert again == data
            assert decoded(message, version, again) == ours
            count += 1
    assert (count == 0) == (api_key in UNKNOWN_TO_KAFKA_PYTHON)
