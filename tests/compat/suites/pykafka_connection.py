"""How pykafka's suite makes and fills topics, in place of Kafka's scripts.

Copied over its `pykafka/test/kafka_instance.py`, whose names these are.
"""

from collections.abc import Iterable

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

ANSWER_S = 10.0


class KafkaInstance:
    """A cluster of the suite's own, which is never made."""


class KafkaConnection:
    """A cluster that is there."""

    certs = None

    def __init__(self, _: str, brokers: str, zookeeper: str, __: str | None) -> None:
        self.brokers, self.zookeeper = brokers, zookeeper
        self._admin = AdminClient({"bootstrap.servers": brokers})

    def create_topic(self, name: bytes | str, partitions: int, _replicas: int) -> None:
        self._admin.create_topics([NewTopic(text(name), partitions, 1)])[text(name)].result()

    def delete_topic(self, name: bytes | str) -> None:
        self._admin.delete_topics([text(name)])[text(name)].result()

    def list_topics(self) -> list[bytes]:
        return [one.encode() for one in self._admin.list_topics(timeout=ANSWER_S).topics]

    def flush(self) -> None:
        for one in self.list_topics():
            if not one.startswith(b"__"):
                self.delete_topic(one)

    def produce_messages(self, topic: bytes | str, messages: Iterable[str], **_: object) -> None:
        producer = Producer({"bootstrap.servers": self.brokers})
        for one in messages:
            producer.produce(text(topic), one)
        assert producer.flush(ANSWER_S) == 0


def text(name: bytes | str) -> str:
    return name.decode() if isinstance(name, bytes) else name
