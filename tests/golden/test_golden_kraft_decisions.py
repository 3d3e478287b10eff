"""What Kafka's controllers decided about partitions, decided again."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ottla.base.ids import parse_uuid
from ottla.base.partitions import TopicPartition
from ottla.codec.api_messages import encode_record
from ottla.codec.schema import Message
from ottla.metadata.altered_isr import AlteredIsr
from ottla.metadata.deciding.elections import elect_leaders
from ottla.metadata.deciding.isr import alter_partition
from ottla.metadata.deciding.partition_changes import arriving, leaving
from ottla.metadata.deciding.reassignments import alter_reassignments
from ottla.metadata.deciding.replica_directories import PlacedReplica, assign_replicas_to_dirs
from ottla.metadata.following import entries_of
from ottla.metadata.image import MetadataImage
from ottla.metadata.record_versions import VersionedRecord
from ottla.metadata.records import (
    BrokerRegistrationChangeRecord,
    NoOpRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from ottla.metadata.replay import MetadataReplay
from ottla.record.batch import iter_batches
from tests.golden.test_golden_kraft_logs import LOGS, RECORDED, segment_of
from tests.support.kraft_images import then

pytestmark = pytest.mark.skipif(not LOGS, reason="needs the shared directories")

LOG = RECORDED / "logdirs" / "controller-102" / "__cluster_metadata-0"


def batches(folder: Path) -> Iterator[tuple[MetadataImage, list[Message]]]:
    """The records of each batch, with the image before them."""
    replay = MetadataReplay()
    for batch in iter_batches(segment_of(folder).content):
        if batch.is_control:
            continue
        records = [one.record for one in entries_of(batch) if one.record is not None]
        yield replay.image(), records
        for record in records:
            replay.replay(record)


def encoded(records: list[VersionedRecord]) -> list[bytes]:
    return sorted(encode_record(record, version) for record, version in records)


def changes_among(records: list[Message]) -> list[VersionedRecord]:
    return [(one, 1) for one in records if isinstance(one, PartitionChangeRecord)]


def test_brokers_that_go_and_come_change_the_partitions_that_kafka_changed() -> None:
    gone, moved, come = 0, 0, 0
    for image, records in batches(LOG):
        changed = changes_among(records)
        for record in records:
            if isinstance(record, BrokerRegistrationChangeRecord):
                if record.fenced < 0:
                    come += 1
                    assert encoded(arriving(image, record.broker_id)) == encoded(changed)
                elif record.fenced or record.in_controlled_shutdown:
                    gone += 1
                    moved += len(changed)
                    assert encoded(leaving(image, record.broker_id)) == encoded(changed)
            elif isinstance(record, RegisterBrokerRecord):
                assert encoded(leaving(image, record.broker_id)) == encoded(changed)
    assert (gone, moved, come) == (12, 211, 7)


# Requests


def requests(api: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The requests of an API, also those in envelopes, with their answers, in order."""
    for line in (RECORDED / "exchanges-decoded.jsonl").read_text().splitlines():
        if f'"{api}"' not in line:
            continue
        exchange = json.loads(line)
        inner = exchange if exchange["api"] == api else exchange.get("envelope") or {}
        if inner.get("api") == api and inner.get("response"):
            yield inner["request"], inner["response"]


def test_the_isrs_that_leaders_asked_for_become_the_records_that_kafka_wrote() -> None:
    asked = {}
    for request, _ in requests("AlterPartition"):
        for topic in request["topics"]:
            for one in topic["partitions"]:
                change = AlteredIsr(
                    topic_id=parse_uuid(topic["topicId"]),
                    partition=one["partitionIndex"],
                    leader_epoch=one["leaderEpoch"],
                    partition_epoch=one["partitionEpoch"],
                    isr=tuple(each["brokerId"] for each in one["newIsrWithEpochs"]),
                    epochs=tuple(each["brokerEpoch"] for each in one["newIsrWithEpochs"]),
                )
                name = change.topic_id, change.partition, change.partition_epoch, change.isr
                asked[name] = (request["brokerId"], request["brokerEpoch"], change)
    compared = 0
    for image, records in batches(LOG):
        if any(isinstance(one, BrokerRegistrationChangeRecord) for one in records):
            continue
        for record, version in changes_among(records):
            assert isinstance(record, PartitionChangeRecord)
            topic = image.topics[image.topic_names[record.topic_id]]
            epoch = topic.partitions[record.partition_id].partition_epoch
            isr = tuple(record.isr or ())
            found = asked.get((record.topic_id, record.partition_id, epoch, isr))
            if found is not None:
                broker_id, broker_epoch, change = found
                made, (answer,) = alter_partition(image, broker_id, broker_epoch, [change])
                assert encoded(made) == encoded([(record, version)]), answer
                compared += 1
    assert compared == 158


def test_moves_elections_and_directories_become_the_records_that_kafka_wrote() -> None:
    moves, elections = list(requests("AlterPartitionReassignments")), list(requests("ElectLeaders"))
    directories = [one for one in requests("AssignReplicasToDirs") if not one[1]["errorCode"]]
    compared = {"moves": 0, "elections": 0, "directories": 0}
    for image, records in batches(LOG):
        changed = changes_among(records)
        others = [one for one in records if not isinstance(one, PartitionChangeRecord | NoOpRecord)]
        if others or not changed:
            continue
        first = changed[0][0]
        assert isinstance(first, PartitionChangeRecord)
        is_completion = [] in (first.adding_replicas, first.removing_replicas)
        if first.replicas is not None and not is_completion:
            request, _ = moves.pop(0)
            ((place, target),) = wanted_of(request).items()
            assert encoded(alter_reassignments(image, {place: target})[0]) == encoded(changed)
            compared["moves"] += 1
        elif first.directories is not None and first.replicas is None:
            request, _ = directories.pop(0)
            placed = list(placed_of(request))
            made, _ = assign_replicas_to_dirs(
                image, request["brokerId"], request["brokerEpoch"], placed
            )
            assert partitions_after(image, made) == partitions_after(image, changed)
            compared["directories"] += 1
        elif first.isr is None and first.replicas is None:
            request, _ = elections.pop(0)
            (topic,) = request["topicPartitions"]
            places = [TopicPartition(topic["topic"], one) for one in topic["partitions"]]
            made, _ = elect_leaders(image, places, is_unclean=request["electionType"] == 1)
            assert encoded(made) == encoded(changed)
            compared["elections"] += 1
    assert compared == {"moves": 3, "elections": 2, "directories": 2}


def partitions_after(image: MetadataImage, records: list[VersionedRecord]) -> dict[str, Any]:
    """Kafka writes two records for a replica in a directory that is offline."""
    return {
        name: [replace(one, partition_epoch=0) for _, one in sorted(topic.partitions.items())]
        for name, topic in then(image, records).topics.items()
    }


def wanted_of(request: dict[str, Any]) -> dict[TopicPartition, list[int] | None]:
    return {
        TopicPartition(topic["name"], one["partitionIndex"]): one["replicas"]
        for topic in request["topics"]
        for one in topic["partitions"]
    }


def placed_of(request: dict[str, Any]) -> Iterator[PlacedReplica]:
    for directory in request["directories"]:
        for topic in directory["topics"]:
            for one in topic["partitions"]:
                ids = parse_uuid(directory["id"]), parse_uuid(topic["topicId"])
                yield PlacedReplica(*ids, one["partitionIndex"])
