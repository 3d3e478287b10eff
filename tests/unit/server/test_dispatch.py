"""Every API in every version that is announced: read, handled, answered in that version."""

import random
from itertools import product

import pytest

from ottla.base.errors import ProtocolError
from ottla.broker.broker import Broker
from ottla.codec.primitives import Output
from ottla.metadata.deciding.topics import NewTopic
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages import request_class, response_class
from ottla.server.dispatching.apis import APIS
from ottla.server.dispatching.dispatch import Dispatcher, handler_of
from tests.support.asking import PEER, Asker
from tests.support.brokers import batch, disk, open_broker
from tests.support.random_messages import random_message


def versions(key: ApiKey) -> range:
    return range(APIS[key].oldest, APIS[key].newest + 1)


@pytest.fixture
def broker() -> Broker:
    broker = open_broker(disk("/d"), log_index_size_max_bytes="120")
    broker.admin.create_topic(NewTopic(name="topic-7"))
    broker.appends.append(broker.topics.partition("topic-7", 0), batch(), now_ms=1)
    broker.appends.write_out()
    return broker


@pytest.mark.parametrize("key", list(APIS))
def test_every_row_has_its_messages_and_its_handler(key: ApiKey) -> None:
    api = APIS[key]
    assert api.key == key
    for message in (request_class(key), response_class(key)):
        assert message.VERSIONS.first <= api.oldest <= api.newest <= message.VERSIONS.last
    assert callable(handler_of(api.key))


@pytest.mark.parametrize("key", list(APIS))
def test_no_request_that_can_be_read_makes_a_handler_fail(broker: Broker, key: ApiKey) -> None:
    asker = Asker(broker)
    for version, seed in product(versions(key), range(20)):
        chance = random.Random(f"{key} {version} {seed}")
        request = random_message(request_class(key), version, chance)
        try:
            later, output = asker.send(request, version)
        except ProtocolError:
            assert key == ApiKey.PRODUCE, "only a failed produce without acks may close"
            continue
        if later is not None:
            broker.fetches.cancel(later.pending_id)
        elif output.data:
            asker.decode(request, version, output)


@pytest.mark.parametrize("key", list(APIS))
def test_random_bytes_are_a_protocol_error_or_a_request(broker: Broker, key: ApiKey) -> None:
    dispatcher = Dispatcher(broker)
    for version, size in product(versions(key), (0, 1, 5, 30, 200)):
        chance = random.Random(f"{key} {version} {size}")
        start = key.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(4) + b"\xff\xff"
        frame = bytearray(start + bytes(1) + chance.randbytes(size))
        try:
            later = dispatcher.dispatch(frame, PEER, Output())
        except ProtocolError:
            continue
        finally:
            broker.appends.write_out()
        if later is not None:
            broker.fetches.cancel(later.pending_id)


def test_what_is_not_announced_is_not_answered(broker: Broker) -> None:
    dispatcher = Dispatcher(broker)
    for key in ApiKey:
        if key in APIS:
            continue
        frame = key.to_bytes(2, "big") + bytes(6) + b"\xff\xff" + bytes(20)
        with pytest.raises(ProtocolError, match="not supported"):
            dispatcher.dispatch(frame, PEER, Output())
