"""Tiers that Kafka filled: their metadata records byte for byte, and the uploads of each log."""

import base64
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ottla.base.ids import parse_uuid
from ottla.codec.api_messages import decode_api_message
from ottla.storage.reading.metadata_reader import RemoteLogMetadata, read_remote_log_metadata
from ottla.storage.reading.read_only_directory import open_for_reading
from ottla.storage.reading.read_only_log import ReadOnlyLog
from ottla.storage.remote.lineage import Chain, chain, highest_remote_offset, is_in_lineage
from ottla.storage.remote.metadata_partition import metadata_partition
from ottla.storage.remote.metadata_records import (
    BY_KEY,
    decode_event,
    encode_event,
)
from ottla.storage.remote.segment_index import SegmentIndex, SegmentIndexes
from ottla.storage.remote.segment_metadata import (
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
)
from tests.golden.test_golden_metadata import check_struct, screaming
from tests.support import SHARED

RECORDED = SHARED / "recorded" / "tiered-storage" if SHARED else Path("no recorded tiers")
MANIFESTS = sorted(RECORDED.glob("*/manifest.json"))
CASES = [path.parent.name for path in MANIFESTS]
KILLED = "8-killed-while-copying"
"""The manifest says what Kafka made of the directory afterwards."""

pytestmark = pytest.mark.skipif(not CASES, reason="needs the recorded tiers")
each_case = pytest.mark.parametrize("case", CASES)


def told(case: str) -> Iterator[dict[str, Any]]:
    with (RECORDED / case / "remote-log-metadata.jsonl").open() as lines:
        yield from map(json.loads, lines)


@cache
def metadata_in(path: Path) -> RemoteLogMetadata:
    return read_remote_log_metadata([open_for_reading(str(path))])


class TieredLog:
    """A partition of a manifest, with what the leader's directory has of it."""

    def __init__(self, case: str, row: dict[str, Any]) -> None:
        self.row = row
        path = RECORDED / case / Path(row["dir"]).parent
        self.directory = open_for_reading(str(path))
        self.log: ReadOnlyLog = self.directory.partition(row["topic"], row["partition"])
        metadata = metadata_in(path)
        assert metadata.findings == ()
        index = metadata.indexes.find(parse_uuid(row["topicId"]), row["partition"])
        assert index is not None
        self.index: SegmentIndex = index
        self.recorded_start = self.directory.log_start(row["topic"], row["partition"])
        self.local_start = max(self.recorded_start, self.log.segments[0].base_offset)

    def chain(self, *, with_epochs: bool = True) -> Chain:
        epochs = self.log.leader_epochs.entries if with_epochs else ()
        return chain(self.index, epochs, self.recorded_start, self.local_start)


@cache
def logs(case: str) -> list[TieredLog]:
    rows = json.loads((RECORDED / case / "manifest.json").read_text())["partitions"]
    return [TieredLog(case, row) for row in rows]


def ranges(found: Chain) -> list[tuple[int, int]]:
    return [(one.first_offset, one.last_offset) for one in found.pieces]


@each_case
def test_every_record_says_what_kafka_decodes_and_is_written_back_byte_by_byte(case: str) -> None:
    for row in told(case):
        value = base64.b64decode(row["value"])
        message, version = decode_api_message(value, BY_KEY)
        assert (message.API_KEY, version) == (row["apiKey"], row["version"])
        assert screaming(type(message).__name__) == row["type"]
        check_struct(message, row["message"])
        assert encode_event(decode_event(value)) == value


@each_case
def test_a_record_is_in_the_partition_that_is_computed(case: str) -> None:
    count = 3 if case == "5-leader-changes" else 5
    for row in told(case):
        partition = decode_event(base64.b64decode(row["value"])).partition
        expected = metadata_partition(partition.topic_id, partition.partition, count)
        assert expected == row["partition"]


@each_case
def test_the_files_of_the_topic_say_what_its_records_say(case: str) -> None:
    indexes = SegmentIndexes()
    for row in told(case):
        assert indexes.apply(decode_event(base64.b64decode(row["value"]))) is None
    for path in sorted((RECORDED / case).glob("logdir*")):
        metadata = metadata_in(path)
        assert metadata.findings == ()
        assert uploads(metadata.indexes) == uploads(indexes)


def uploads(indexes: SegmentIndexes) -> dict[TopicIdPartition, list[RemoteLogSegmentMetadata]]:
    return {one.partition: one.segments() for one in indexes}


@each_case
def test_the_uploads_of_a_log_cover_it_from_its_start_to_what_is_local(case: str) -> None:
    for one in logs(case):
        if case != KILLED:
            assert one.local_start == one.row["localLogStartOffset"]
        for with_epochs in (True, False):
            found = one.chain(with_epochs=with_epochs)
            assert found.start_offset == one.row["logStartOffset"]
            assert [finding for finding in found.findings if not finding.is_note] == []
            due = found.start_offset
            for first, last in ranges(found):
                assert first == due
                due = last + 1
            assert due == one.local_start
            assert {piece.segment.state for piece in found.pieces} <= {
                SegmentState.COPY_SEGMENT_FINISHED
            }


@each_case
def test_the_highest_offset_in_the_tier_is_that_of_uploads_that_exist(case: str) -> None:
    for one in logs(case):
        if case == KILLED or one.row["topic"] == "rall":
            continue  # Kafka has finished the uploads since; Kafka does not see the deletions
        end = one.row["highWatermark"]
        epochs = one.log.leader_epochs.entries
        found = highest_remote_offset(one.index, epochs, one.local_start, end)
        assert (-1 if found is None else found.start_offset) == one.row["lastTieredOffset"]


@each_case
def test_whole_uploads_of_the_log_are_in_its_lineage_and_others_are_not(case: str) -> None:
    for one in logs(case):
        epochs = one.log.leader_epochs.entries
        finished = [
            segment
            for segment in one.index.segments()
            if segment.state is SegmentState.COPY_SEGMENT_FINISHED
        ]
        outside = [
            segment
            for segment in finished
            if not is_in_lineage(segment, epochs, one.row["highWatermark"])
        ]
        is_forked = one.row["topic"] == "unclean"
        assert {epoch for segment in outside for epoch, _ in segment.leader_epochs} == (
            {0, 2} if is_forked else set()
        )
        used = {piece.segment.segment_id for piece in one.chain().pieces}
        assert used.isdisjoint(segment.segment_id for segment in outside)


def test_a_topic_that_was_deleted_and_created_again_has_two_ids() -> None:
    indexes = metadata_in(RECORDED / "6-deleted-topics" / "logdir").indexes
    assert sorted(len(one) for one in indexes.named("again", 0)) == [0, 4]
    assert [len(one) for one in indexes.named("gone", 0)] == [0]
