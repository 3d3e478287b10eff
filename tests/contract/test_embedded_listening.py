"""The embedded log as a broker for other processes' clients."""

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import ottla

pytestmark = pytest.mark.slow


def test_a_client_reads_what_the_process_appends_and_the_other_way_round(tmp_path: Path) -> None:
    with ottla.open(tmp_path) as log:
        log.create_topic("t")
        log.append("t", b"from inside")
        listening = log.listen("127.0.0.1:0")
        servers = {"bootstrap.servers": listening.address}
        producer = Producer(servers)
        producer.produce("t", b"from outside", partition=0)
        assert producer.flush(10) == 0
        assert [one.value for one in log.read("t")] == [b"from inside", b"from outside"]
        consumer = Consumer({**servers, "group.id": "g"})
        consumer.assign([TopicPartition("t", 0, 0)])
        assert [one.value() for one in consumer.consume(2, 10)] == [b"from inside", b"from outside"]
        log.append("t", b"while a client waits")
        (message,) = consumer.consume(1, 10)
        assert message.value() == b"while a client waits"
        consumer.close()


def test_an_address_in_use_is_named(tmp_path: Path) -> None:
    with ottla.open(tmp_path) as log:
        address = log.listen("127.0.0.1:0").address
        with pytest.raises(ottla.UserError, match=f"cannot listen on {address}"):
            log.listen(address)
