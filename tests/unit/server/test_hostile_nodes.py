"""Whatever a controller is asked, it answers, ends the connection, and stays what it is."""

from dataclasses import replace
from random import Random

import pytest

from ottla.base.errors import ProtocolError
from ottla.base.principal import ANONYMOUS
from ottla.codec.primitives import Output
from ottla.codec.schema import Message
from ottla.protocol.api_keys import FORWARDED, ApiKey
from ottla.protocol.headers import RequestHeader, encode_request
from ottla.protocol.messages import request_class
from ottla.protocol.messages.envelope import EnvelopeRequest
from ottla.protocol.principal_data import encode_principal
from ottla.server.dispatching.apis import EVERY_API
from tests.support.lonely_node import LonelyNode
from tests.support.random_messages import random_message

OF_NODES = (
    ApiKey.ALTER_PARTITION,
    ApiKey.UPDATE_FEATURES,
    ApiKey.ENVELOPE,
    ApiKey.BROKER_REGISTRATION,
    ApiKey.BROKER_HEARTBEAT,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.UNREGISTER_CONTROLLER,
    ApiKey.CONTROLLER_REGISTRATION,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    ApiKey.ALLOCATE_PRODUCER_IDS,
)
OF_MACHINE = {ApiKey.DESCRIBE_QUORUM, ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER}
"""The quorum's machine answers them, which a lonely node does not have."""

SEEDS = 40


def _asked(node: LonelyNode, request: Message, version: int) -> None:
    """The dispatcher answers, or has the connection ended."""
    try:
        node.ask_node(request, version)
    except ProtocolError:
        return


def _check_is_sound(node: LonelyNode) -> None:
    own, others = node.quorum.controller.image, node.quorum.replayed()
    assert replace(others, epoch=0, end_offset=0, revision=0) == replace(
        own, epoch=0, end_offset=0, revision=0
    )


@pytest.mark.slow
@pytest.mark.parametrize("key", OF_NODES)
def test_nodes_that_ask_anything_are_answered(key: ApiKey) -> None:
    node, api = LonelyNode(), EVERY_API[key]

    for seed in range(SEEDS):
        version = Random(seed).randint(api.oldest, api.newest)
        _asked(node, random_message(request_class(key), version, Random(seed)), version)

    _check_is_sound(node)


@pytest.mark.slow
@pytest.mark.parametrize("key", sorted(FORWARDED - OF_MACHINE))
def test_envelopes_with_anything_are_answered(key: ApiKey) -> None:
    node, api = LonelyNode(), EVERY_API[key]

    for seed in range(SEEDS):
        chance = Random(seed)
        version = chance.randint(api.oldest, api.newest)
        output = Output()
        inner = random_message(request_class(key), version, chance)
        encode_request(RequestHeader(key, version, seed, "test"), inner, output)
        envelope = EnvelopeRequest(
            request_data=output.read_all()[4:],
            request_principal=encode_principal(ANONYMOUS, is_by_token=False),
            client_host_address=bytes(4),
        )
        _asked(node, envelope, 0)

    _check_is_sound(node)
