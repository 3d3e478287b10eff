"""The position of a stream as JSON, in checkpoints of this source and of Spark's own."""

import json
from typing import Any

import pytest

from ottla.base.errors import UserError
from ottla.base.ids import Uuid, uuid_text
from ottla.base.partitions import TopicPartition
from ottla.sources.stream.continuity import Position
from ottla.sources.stream.stream_offset import StreamOffset, parse_stream_offset

ID = Uuid(bytes(range(16)))
OFFSET = StreamOffset(
    positions={
        TopicPartition("orders", 0): Position(offset=12, topic_id=ID, leader_epoch=3),
        TopicPartition("orders", 1): Position(offset=7, topic_id=ID, leader_epoch=None),
    },
    started={TopicPartition("orders", 0): 5, TopicPartition("orders", 1): 7},
)


def as_sparks_own_source_reads(found: dict[str, Any]) -> dict[tuple[str, int], int]:
    """`Map[String, Map[Int, Long]]`, whose entries are its partitions (`JsonUtils` of Spark)."""
    return {
        (topic, int(number)): offset
        for topic, offsets in found.items()
        for number, offset in offsets.items()
    }


def test_what_is_added_is_read_back() -> None:
    assert parse_stream_offset(json.loads(json.dumps(OFFSET.to_json()))) == OFFSET


def test_sparks_own_source_finds_only_topics_partitions_and_offsets() -> None:
    found = as_sparks_own_source_reads(json.loads(json.dumps(OFFSET.to_json())))
    assert found == {("orders", 0): 12, ("orders", 1): 7}


def test_offsets_of_sparks_own_source_are_read() -> None:
    found = parse_stream_offset({"orders": {"0": 12}})
    assert found.positions == {TopicPartition("orders", 0): Position(offset=12)}


def test_offsets_of_earlier_versions_are_read() -> None:
    ours = {
        "version": 2,
        "topic_ids": {"orders": uuid_text(ID)},
        "leader_epochs": {"orders": {"0": 3}},
        "started": {"orders": {"0": 5, "1": 7}},
    }
    assert parse_stream_offset({"orders": {"0": 12, "1": 7}, ":ottla": ours}) == OFFSET


def test_the_same_offset_is_the_same_text() -> None:
    other = StreamOffset(positions=dict(reversed(OFFSET.positions.items())), started=OFFSET.started)
    assert json.dumps(OFFSET.to_json()) == json.dumps(other.to_json())


@pytest.mark.parametrize(
    "found",
    [
        {"version": 1},
        {"a": {"0": 5}, ":ottla": {"version": 2}},
        {"a": {"0": 5}, ":ottla": []},
        {"a": {"0": 5}, ':ottla {"version": 3}': {}},
        {":ottla {": {}},
        {":ottla []": {}},
        {"version": 1, "offsets": {}, "topic_ids": {"a": "?"}, "leader_epochs": {}},
        {"a": 5},
        {"a": {"0": "5"}},
        {"a": {"x": 5}},
    ],
)
def test_what_is_no_offset_is_refused(found: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="the checkpoint holds no offsets of this source"):
        parse_stream_offset(found)


@pytest.mark.parametrize(
    ("found", "version", "known"),
    [
        ({"a": {"0": 5}, ":ottla": {"version": 1}}, 1, 2),
        ({"a": {"0": 5}, ':ottla {"version": 4}': {}}, 4, 3),
    ],
)
def test_a_checkpoint_of_another_version_is_refused_with_what_to_do(
    found: dict[str, Any], version: int, known: int
) -> None:
    with pytest.raises(
        UserError, match=f"checkpoint.*version {version}, and.* knows {known} only: use"
    ):
        parse_stream_offset(found)
