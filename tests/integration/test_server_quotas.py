"""A connection whose client is too fast is muted for the time that its answer told."""

import contextlib
import select
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.broker import Broker
from ottla.broker.quotas.quota_changes import QuotaAlteration
from ottla.metadata.deciding.topics import NewTopic
from ottla.metadata.quotas import quota_entity
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.server.network.connection_events import Refusal
from ottla.server.network.listener import Server
from tests.support.altering import alter_quota
from tests.support.brokers import batch
from tests.support.serving import WireClient, open_broker, serving

pytestmark = pytest.mark.slow

LIMIT = 10_000
FREE_SIZE = 10 * LIMIT
"""What all whole windows allow, at once too."""

EXCESS = 3000
PATIENCE_S = 60
PRODUCE, METADATA = 0, 3
PRODUCE_VERSION, METADATA_VERSION = 9, 5


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    broker = open_broker(tmp_path)
    broker.admin.create_topic(NewTopic(name="t"))
    limits = {"producer_byte_rate": float(LIMIT)}
    names = quota_entity({"client-id": "test"})
    alter_quota(broker, QuotaAlteration(names=names, limits=limits))
    return broker


@pytest.fixture
def server(broker: Broker) -> Iterator[Server]:
    with serving(broker) as server:
        yield server


def produce(size: int) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=batch(b"x" * size))
    topic = TopicProduceData(name="t", partition_data=[data])
    return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])


def test_the_next_request_waits_while_others_are_served(server: Server) -> None:
    with WireClient(server.address) as fast, WireClient(server.address) as other:
        asked = time.monotonic()
        fast.send(produce(FREE_SIZE + EXCESS), PRODUCE_VERSION)
        fast.send(MetadataRequest(topics=[]), METADATA_VERSION)
        throttle_ms = fast.receive(PRODUCE, PRODUCE_VERSION).throttle_time_ms
        assert 250 <= throttle_ms <= 400
        other.ask(MetadataRequest(topics=[]), METADATA_VERSION)
        is_waiting = not select.select([fast.socket], [], [], 0)[0]
        # A host may be so slow that the pause was over meanwhile.
        assert is_waiting or time.monotonic() - asked > (throttle_ms - 50) / 1000
        fast.receive(METADATA, METADATA_VERSION)
        assert time.monotonic() - asked > (throttle_ms - 50) / 1000


def test_a_client_that_goes_while_it_is_held_back_is_let_go(server: Server, broker: Broker) -> None:
    with WireClient(server.address) as fast:
        answer = fast.ask(produce(FREE_SIZE + 20 * EXCESS), PRODUCE_VERSION)
        assert answer.throttle_time_ms > 4000
        assert len(broker.throttled_clients) == 1
    with WireClient(server.address) as other:
        other.ask(MetadataRequest(topics=[]), METADATA_VERSION)


def test_an_address_that_connects_too_fast_is_closed_after_a_while(
    server: Server, broker: Broker
) -> None:
    names = quota_entity({"ip": "127.0.0.1"})
    alter_quota(broker, QuotaAlteration(names=names, limits={"connection_creation_rate": 1.0}))
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(WireClient(server.address))]
        clients[0].ask(MetadataRequest(topics=[]), METADATA_VERSION)
        while not server.connection_counts.refused[Refusal.HOST_RATE]:
            clients.append(stack.enter_context(WireClient(server.address)))
            assert len(clients) < 1000
        closed, _, _ = select.select([one.socket for one in clients], [], [], PATIENCE_S)
        assert {one.recv(1) for one in closed} == {b""}
        clients[0].ask(MetadataRequest(topics=[]), METADATA_VERSION)
