"""Tiers that Kafka filled, in both layouts: their objects, and the records that consumers read."""

import base64
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from ottla.record.batch import iter_batches
from ottla.record.record import read_records
from ottla.storage.remote.opening import open_tier
from ottla.storage.remote.remote_storage import RemoteStorage
from ottla.storage.remote.segment_index import SegmentIndexes
from ottla.storage.remote.segment_metadata import (
    IndexType,
    RemoteLogSegmentMetadata,
    SegmentState,
)
from tests.golden.test_golden_remote_log_metadata import (
    RECORDED,
    TieredLog,
    decode_event,
    each_case,
    logs,
    told,
)
from tests.golden.test_golden_remote_log_metadata import pytestmark as needs_recorded

pytestmark = [needs_recorded, pytest.mark.slow]


@cache
def tier_of(case: str) -> RemoteStorage:
    return open_tier(str(RECORDED / case / "tier"), keys=str(RECORDED / case / "keys"))


def finished(case: str) -> list[RemoteLogSegmentMetadata]:
    indexes = SegmentIndexes()
    for row in told(case):
        indexes.apply(decode_event(base64.b64decode(row["value"])))
    return [
        segment
        for index in indexes
        for segment in index.segments()
        if segment.state is SegmentState.COPY_SEGMENT_FINISHED
    ]


@each_case
def test_every_finished_upload_is_read_with_its_indexes(case: str) -> None:
    tier, uploads = tier_of(case), finished(case)
    assert uploads
    for one in uploads:
        assert tier.log_size(one) == one.size
        log = b"".join(tier.read_log(one, at, 1000) for at in range(0, one.size, 1000))
        assert log == tier.read_log(one, 0, one.size + 1)
        for batch in iter_batches(log):
            batch.check()
            assert one.start_offset <= batch.base_offset <= batch.last_offset <= one.end_offset
        read = {kind: tier.read_index(one, kind) for kind in IndexType}
        assert {kind for kind, content in read.items() if content is None} <= {
            IndexType.TRANSACTION
        }


@each_case
def test_the_tier_says_of_its_uploads_what_the_records_say(case: str) -> None:
    own = {one.segment_id: one for one in tier_of(case).segments()}
    uploads = {one.segment_id: one for one in finished(case)}
    assert own.keys() == uploads.keys()
    for segment_id, one in own.items():
        for name in (
            "partition", "start_offset", "end_offset", "max_timestamp_ms", "leader_epochs", "size",
            "state",
        ):  # fmt: skip
            assert getattr(one, name) == getattr(uploads[segment_id], name), name
        assert tier_of(case).log_size(one) == one.size


@each_case
def test_the_records_in_the_tier_are_those_that_consumers_read(case: str) -> None:
    for one in logs(case):
        expected = [row for row in one.row["records"] if row["offset"] < one.local_start]
        assert expected or one.local_start == one.row["logStartOffset"]
        assert list(records_in(one, tier_of(case))) == [
            {name: row[name] for name in ("offset", "timestamp", "key", "value", "headers")}
            for row in expected
        ]


def records_in(one: TieredLog, tier: RemoteStorage) -> Iterator[dict[str, Any]]:
    for piece in one.chain().pieces:
        for batch in iter_batches(tier.read_log(piece.segment, 0, piece.segment.size)):
            for record in () if batch.is_control else read_records(batch):
                if piece.first_offset <= record.offset <= piece.last_offset:
                    yield {
                        "offset": record.offset,
                        "timestamp": record.timestamp_ms,
                        "key": text_of(record.key),
                        "value": text_of(record.value),
                        "headers": [[name, text_of(value)] for name, value in record.headers],
                    }


def text_of(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()
