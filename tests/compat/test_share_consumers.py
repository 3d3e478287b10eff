"""confluent-kafka's ShareConsumer at a broker: records accepted, released, rejected, left."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import AcknowledgeType, Message, Producer, ShareConsumer

from ottla.base.partitions import TopicPartition
from ottla.client.administration.admin import Admin
from ottla.metadata.deciding.topics import NewTopic
from tests.support.patience import wait_until
from tests.support.serving import open_broker, serving

pytestmark = pytest.mark.slow

ACCEPT, RELEASE, REJECT = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
)
PLACE = TopicPartition("orders", 0)


def consumer(address: str) -> ShareConsumer:
    made = ShareConsumer(
        {
            "bootstrap.servers": address,
            "group.id": "jobs",
            "share.acknowledgement.mode": "explicit",
        }
    )
    made.subscribe(["orders"])
    return made


def take(one: ShareConsumer, judge: Callable[[Message], AcknowledgeType | None]) -> list[int]:
    """The offsets that come until some do; what is judged is committed."""

    def polled() -> list[Message]:
        return list(one.poll(timeout=0.1) or ())

    messages = wait_until(polled)
    judged = [(message, judge(message)) for message in messages]
    for message, kind in judged:
        if kind is not None:
            one.acknowledge(message, kind)
    if any(kind is not None for _, kind in judged):
        assert set(one.commit_sync(timeout=30).values()) == {None}
    return [message.offset() for message in messages]


def first_time(message: Message) -> AcknowledgeType:
    return {1: RELEASE, 2: REJECT}.get(message.offset(), ACCEPT)


def test_share_consumers_accept_release_reject_and_get_what_another_has_left(
    tmp_path: Path,
) -> None:
    broker = open_broker(
        tmp_path / "data",
        offsets_topic_num_partitions="1",
        share_coordinator_state_topic_num_partitions="1",
    )
    broker.admin.create_topic(NewTopic(name="orders"))
    broker.settings.groups.change("jobs", {"share.auto.offset.reset": "earliest"})
    with serving(broker) as server:
        address = "{}:{}".format(*server.address)
        producer = Producer({"bootstrap.servers": address})
        for number in range(6):
            producer.produce("orders", b"%d" % number)
        producer.flush()
        with closing(consumer(address)) as one:
            offsets = take(one, first_time)
            while len(offsets) < 6:
                offsets += take(one, first_time)
            assert offsets == [0, 1, 2, 3, 4, 5]
            (released,) = take(one, lambda message: None)
            assert released == 1
            with Admin(address) as admin:
                (held,) = admin.records_in_flight("jobs", [PLACE])
            assert (held.first, held.last, held.delivery_count) == (1, 1, 2)
            assert [reason.name for reason in held.reasons] == ["RELEASED"]
        with closing(consumer(address)) as another:
            assert take(another, lambda message: ACCEPT) == [1]
