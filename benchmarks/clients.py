"""librdkafka, set up so that it is the broker that is measured.

Left alone, its consumer stops at a few hundred thousand messages per second whatever the broker
does: it pauses between fetches, and keeps too few messages ready.
"""

from typing import Any

PRODUCER = {
    "acks": "all",
    "linger.ms": 5,
    "batch.num.messages": 100_000,
    "queue.buffering.max.messages": 2_000_000,
    "queue.buffering.max.kbytes": 1_000_000,
    # Reports of success would be handed to Python one by one; the log's end is checked instead.
    "delivery.report.only.error": True,
}

CONSUMER = {
    "group.id": "bench",
    "enable.auto.commit": False,
    "queued.min.messages": 2_000_000,
    "queued.max.messages.kbytes": 500_000,
    "fetch.queue.backoff.ms": 1,
    "fetch.message.max.bytes": 10_000_000,
    "fetch.max.bytes": 50_000_000,
    # Not every broker keeps to the limits above.
    "receive.message.max.bytes": 2_000_000_000,
}

QUIET = {"log_level": 0}

CHUNK_COUNT = 10_000
QUEUE_SIZE = 40_000_000
"""Bytes of values that wait in the client: enough to keep it busy, and little fresh memory."""

FLUSH_S = 120.0
CONSUME_S = 20.0


def absence() -> str | None:
    """Why librdkafka cannot be used, if it cannot."""
    try:
        import confluent_kafka  # noqa: F401
    except ImportError:
        return "confluent-kafka is not installed (pip install --group bench)"
    return None


def producer(address: str | None, **settings: Any) -> Any:
    """A producer to a broker; with no address to a mock cluster in the client's own process."""
    from confluent_kafka import Producer

    target: dict[str, Any] = {"bootstrap.servers": address}
    if address is None:
        target = {"test.mock.num.brokers": 1}
    return Producer({**QUIET, **PRODUCER, **target, **settings})


def consumer(address: str, **settings: Any) -> Any:
    """A consumer that nothing is assigned to yet."""
    from confluent_kafka import Consumer

    return Consumer({**QUIET, **CONSUMER, "bootstrap.servers": address, **settings})


def read_from(source: Any, topic: str, offset: int) -> None:
    """Has a consumer fetch a topic's one partition, outside any group."""
    from confluent_kafka import TopicPartition

    source.assign([TopicPartition(topic, 0, offset)])


def produce_all(target: Any, topic: str, value: bytes, count: int) -> None:
    """Produces `count` messages of the same value, and waits until all are acknowledged."""
    chunk_size = max(1, min(CHUNK_COUNT, 10_000_000 // len(value), count))
    messages = [{"value": value} for _ in range(chunk_size)]
    limit = 2 * chunk_size + QUEUE_SIZE // len(value)
    left = count
    while left:
        target.poll(0)
        while len(target) >= limit:
            target.poll(0.001)
        done = target.produce_batch(topic, messages[:left], partition=0)
        if done == 0:
            target.poll(0.01)
        left -= done
    if target.flush(FLUSH_S):
        raise RuntimeError(f"{len(target)} messages were not acknowledged")


def consume_all(source: Any, count: int, size: int) -> None:
    """Consumes until `count` messages have come; raises unless their values add up to `size`."""
    while count:
        events = source.consume(min(count, CHUNK_COUNT), CONSUME_S)
        if not events:
            raise RuntimeError(f"{count} messages did not come")
        # Events that are no messages tell of what is tried again, such as finding a coordinator.
        messages = [event for event in events if event.error() is None]
        size -= sum(map(len, messages))
        count -= len(messages)
    if size:
        raise RuntimeError(f"the messages are {size} bytes short of what was sent")
