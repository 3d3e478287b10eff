"""What Kafka's controller sent its brokers, read as orders and written again."""

import pytest

from ottla.cluster.orders import OrderWriter
from ottla.codec.primitives import Output
from ottla.codec.schema import Message, writer
from ottla.config.inter_broker_version import parse_inter_broker_version
from ottla.controller.requests import LeaderAndIsr, Order, Outgoing
from ottla.protocol.api_keys import ApiKey
from ottla.server.orders import decoding
from tests.golden.exchanges import RECORDED, Exchange, exchanges

pytestmark = pytest.mark.skipif(RECORDED is None, reason="no recorded exchanges (OTTLA_SHARED)")


def encoded(message: Message, version: int) -> bytes:
    output = Output()
    writer(type(message), version)(message, output)
    return bytes(output.read_all())


FILES = {"exchanges.jsonl": "3.9", "exchanges-ibp-2.4.jsonl": "2.4"}
KEYS = (ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA)


def order_in(exchange: Exchange) -> Order:
    version, request = exchange.header.api_version, exchange.request
    match exchange.header.api_key:
        case ApiKey.LEADER_AND_ISR:
            return decoding.leader_and_isr(request)
        case ApiKey.STOP_REPLICA:
            return decoding.stop_replica(request, version)
        case _:
            return decoding.update_metadata(request, version)


@pytest.mark.parametrize("name", FILES)
def test_an_order_is_written_again_as_it_was_read(name: str) -> None:
    count = 0
    for exchange in exchanges(name):
        if exchange.header.api_key not in KEYS:
            continue
        count += 1
        request, order = exchange.request, order_in(exchange)
        sender = decoding.sender_of(request)
        writer = OrderWriter(
            controller_id=sender.controller,
            version=parse_inter_broker_version(FILES[name]),
            listener="INTERNAL",
        )
        outgoing = Outgoing(
            broker=exchange.receiver,
            broker_epoch=sender.broker_epoch,
            controller_epoch=sender.controller_epoch,
            order=order,
        )
        (wire,) = writer.requests(outgoing)
        if isinstance(order, LeaderAndIsr):
            # Where brokers are is known from UpdateMetadata.
            request.live_leaders = []
        assert wire.version == exchange.header.api_version
        version = wire.version
        assert encoded(wire.message, version) == encoded(request, version), exchange.line
    assert count > 200
