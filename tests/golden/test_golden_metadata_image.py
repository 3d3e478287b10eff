"""The image of a metadata log that Kafka wrote is what Kafka's admin clients were told."""

import json
from pathlib import Path
from typing import Any

import pytest

from ottla.base.errors import CorruptionError
from ottla.base.ids import uuid_text
from ottla.base.resource_kinds import ResourceKind
from ottla.metadata.image import MetadataImage
from ottla.metadata.log_files import MetadataFile, read_log
from tests.golden.test_golden_metadata import RECORDED

LOG_FOLDER = RECORDED / "logdir" / "__cluster_metadata-0"
SNAPSHOT_NAME = "00000000000000000123-0000000001.checkpoint"

pytestmark = pytest.mark.skipif(not RECORDED.exists(), reason="needs the shared metadata log")


def snapshot() -> MetadataFile:
    path = LOG_FOLDER / SNAPSHOT_NAME
    return MetadataFile(path=str(path), content=path.read_bytes(), offset=123, epoch=1)


def segment(content: bytes | None = None) -> MetadataFile:
    path = LOG_FOLDER / "00000000000000000000.log"
    return MetadataFile(path=str(path), content=path.read_bytes() if content is None else content)


def told() -> dict[str, Any]:
    return json.loads((RECORDED / "manifest.json").read_text())  # type: ignore[no-any-return]


@pytest.fixture(params=[True, False], ids=["with the snapshot", "from the log alone"])
def image(request: pytest.FixtureRequest) -> MetadataImage:
    return read_log(snapshot() if request.param else None, [segment()], may_be_torn=False).image()


def test_topics_have_the_ids_and_settings_that_kafka_reported(image: MetadataImage) -> None:
    mine = {name: (uuid_text(one.topic_id), one.configs) for name, one in image.topics.items()}
    assert mine == {one["name"]: (one["id"], one["configs"]) for one in told()["topics"]}


def test_partitions_stand_as_in_kafkas_own_image(image: MetadataImage) -> None:
    mine = [
        {
            "topic": topic.name,
            "id": uuid_text(topic.topic_id),
            "partition": index,
            "leader": one.leader,
            "leaderEpoch": one.leader_epoch,
            "partitionEpoch": one.partition_epoch,
            "replicas": list(one.replicas),
            "isr": list(one.isr),
            "directories": list(map(uuid_text, one.directories)),
        }
        for topic in image.topics.values()
        for index, one in topic.partitions.items()
    ]
    assert mine == told()["image"]["partitions"]
    assert (image.end_offset - 1, image.epoch) == (230, 2)


def test_settings_of_brokers_quotas_and_features_are_those_that_kafka_reported(
    image: MetadataImage,
) -> None:
    brokers = told()["brokerConfigs"]
    assert image.configs == {
        ResourceKind.BROKER: {
            "" if name == "default" else name: values for name, values in brokers.items()
        }
    }
    mine = [{"entity": dict(entity), "quotas": one} for entity, one in image.quotas.items()]
    assert sorted(mine, key=repr) == sorted(told()["clientQuotas"], key=repr)
    levels = {name: levels[1] for name, levels in told()["finalizedFeatures"].items()}
    assert {"metadata.version": image.features["metadata.version"]} == levels
    assert image.next_producer_id > max(one["producerId"] for one in told()["transactions"])


def test_users_and_acls_are_those_that_kafka_reported(image: MetadataImage) -> None:
    users: dict[str, list[dict[str, Any]]] = {}
    for (name, mechanism), one in sorted(image.credentials.items()):
        fields = {"mechanism": mechanism, "iterations": one.iterations}
        users.setdefault(name, []).append(fields)
    assert users == told()["scramUsers"]
    acls = [
        {
            "resourceType": pattern.resource_type.name,
            "name": pattern.name,
            "patternType": pattern.pattern_type.name,
            "principal": entry.principal,
            "host": entry.host,
            "operation": entry.operation.name,
            "permission": entry.permission.name,
        }
        for pattern, entry in image.all_acls()
    ]
    assert sorted(acls, key=repr) == sorted(told()["acls"], key=repr)


@pytest.mark.slow
def test_a_flipped_bit_anywhere_under_a_crc_is_named() -> None:
    for file in (segment(), snapshot()):
        for position in range(5, len(file.content), 97):
            if not is_covered(file.content, position):
                continue
            content = bytearray(file.content)
            content[position] ^= 0x10
            broken = MetadataFile(
                path=file.path, content=bytes(content), offset=file.offset, epoch=file.epoch
            )
            is_snapshot = file.offset > 0
            with pytest.raises(CorruptionError) as caught:
                read_log(
                    broken if is_snapshot else None,
                    [segment() if is_snapshot else broken],
                    may_be_torn=False,
                ).image()
            assert caught.value.path == file.path


def is_covered(content: bytes, position: int) -> bool:
    """Whether the CRC covers a byte: all but the first 21 of each batch."""
    start = max(end for end in _ends(content) if end <= position)
    return position - start >= 21


def test_a_log_cut_short_is_damaged_after_a_clean_stop_and_torn_after_a_crash(
    tmp_path: Path,
) -> None:
    whole = segment().content
    cut = segment(whole[:-5])
    with pytest.raises(CorruptionError, match="cut short"):
        read_log(None, [cut], may_be_torn=False).image()
    image = read_log(None, [cut], may_be_torn=True).image()
    assert 0 < image.end_offset < 231
    zeros = segment(whole + bytes(4096))
    assert read_log(None, [zeros], may_be_torn=True).image().end_offset == 231


def test_a_snapshot_without_its_footer_is_not_whole() -> None:
    file = snapshot()
    batches = list(_ends(file.content))
    cut = MetadataFile(path=file.path, content=file.content[: batches[-2]], offset=123, epoch=1)
    with pytest.raises(CorruptionError, match="incomplete"):
        read_log(cut, [segment()], may_be_torn=False).image()


def _ends(content: bytes) -> list[int]:
    """Where batches end; 0 in front."""
    ends = [0]
    while ends[-1] < len(content):
        start = ends[-1]
        ends.append(start + 12 + int.from_bytes(content[start + 8 : start + 12], "big"))
    return ends
