"""Imports the messages of a log directory of Kafka 0.7 into a topic, once each.

In a partition without other producers each message has one offset, so the end offset is the number
of imported messages: after an interruption the import continues there, once the last message is
found to be the same.
"""

from collections.abc import Iterator
from itertools import islice

from ottla.base.errors import UserError
from ottla.base.files import FileSystem
from ottla.base.partitions import TopicPartition
from ottla.client.administration.admin import Admin
from ottla.client.bulk.reading import EARLIEST, LATEST, FetchFrom, fetch, list_offset
from ottla.client.connecting.cluster import Cluster
from ottla.record.batch import iter_batches
from ottla.record.record import read_records
from ottla.storage.reading.kafka_07 import OldMessage, old_messages, old_partitions

POSITION_HEADER = "kafka-0.7-position"
FETCH_SIZE = 1 << 20


def old_topic_partitions(file_system: FileSystem, directory: str, topic: str) -> list[int]:
    """The partitions of one topic; raises `UserError` if there are none."""
    found = old_partitions(file_system, directory)
    if not found:
        raise UserError(
            f"{directory}: no log directory of Kafka 0.7, which has directories like my_topic_0 "
            "with files like 00000000000000000000.kafka"
        )
    numbers = [number for name, number in found if name == topic]
    if not numbers:
        names = ", ".join(sorted({name for name, _ in found}))
        raise UserError(f"{directory}: there is no topic {topic}; there are {names}")
    return numbers


def prepare_topic(cluster: Cluster, topic: str, numbers: list[int]) -> None:
    """Creates the topic if it is missing; raises `UserError` for one with too few partitions."""
    wanted = max(numbers) + 1
    found = cluster.look_up([topic]).get(topic)
    if found is None:
        Admin(cluster).create_topic(topic, partitions=wanted)
    elif len(found.leaders) < wanted:
        raise UserError(
            f"topic {topic} has {len(found.leaders)} partitions, and {wanted} are imported; "
            "grow it, or import into a new topic"
        )


def messages_left(
    cluster: Cluster, file_system: FileSystem, directory: str, place: TopicPartition
) -> Iterator[OldMessage]:
    """The messages of an old partition that the topic of its name does not have yet.

    Raises `UserError` if the topic has other records.
    """
    messages = old_messages(file_system, directory, place)
    start, end = (_offset(cluster, place, time_ms) for time_ms in (EARLIEST, LATEST))
    if end == 0:
        return messages
    last = next(islice(messages, end - 1, None), None)
    # Messages deleted by retention cannot be compared.
    if last is None or (end > start and _value_at(cluster, place, end - 1) != last.payload):
        raise UserError(
            f"{place} has {end} records that are not those of {directory}; import into a new "
            f"topic that has no other producers"
        )
    return messages


def _offset(cluster: Cluster, place: TopicPartition, time_ms: int) -> int:
    return cluster.ask_leader(*place, lambda leader: list_offset(leader, *place, time_ms))


def _value_at(cluster: Cluster, place: TopicPartition, offset: int) -> bytes | None:
    wanted = FetchFrom(
        topic=place.topic, partition=place.partition, offset=offset, max_size=FETCH_SIZE
    )
    found = cluster.ask_leader(*place, lambda leader: fetch(leader, wanted))
    for batch in iter_batches(found.records, allow_torn_tail=True):
        for record in read_records(batch):
            if record.offset == offset:
                return record.value
    return None
