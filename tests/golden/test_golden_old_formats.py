"""Topics of the old message formats: what is made of the sets that Kafka was sent, beside Kafka's.

The sets are found in Kafka's log: uncompressed messages as they were sent together, wrappers one by
one. They come with the offsets, times and checksums of a producer, who knows none of the log's.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.base.files import OsFileSystem
from ottla.codec.compression import Compression
from ottla.config.setting import with_values
from ottla.config.topic import TopicConfig
from ottla.record.batch import Batch, TimestampType, iter_batches
from ottla.record.legacy import LegacyBatch, build_message
from ottla.record.message_set import MessageSetBuilder
from ottla.record.record import Record, read_records
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.directory.open_options import OpenOptions
from ottla.storage.log.partition_log import PartitionLog
from tests.golden.test_golden_writing import TOPIC_ID, files_of
from tests.support import SHARED

NOW_MS = 1_700_000_000_000
SENT_TOGETHER = {"v1-lat": 5, "mixed": 4}
"""Messages of one request, in uncompressed sets; seven in the other topics."""

# snappy's compressor in Java's library finds other matches than ours: its files differ in size.
CASES = ["v0-none", "v0-gzip", "v0-lz4", "v1-none", "v1-gzip", "v1-lz4", "v1-snappy", "v1-lat"]

pytestmark = pytest.mark.skipif(SHARED is None, reason="the directories of Kafka's are not here")


def golden() -> Path:
    assert SHARED is not None
    return SHARED / "golden" / "old-formats"


def partition_of(topic: str) -> dict[str, Any]:
    partitions = json.loads((golden() / "manifest.json").read_text())["partitions"]
    found: dict[str, Any] = next(one for one in partitions if one["topic"] == topic)
    return found


def config_of(topic: str, **changes: str) -> TopicConfig:
    return with_values(
        TopicConfig(honours_format_version=True),
        {name: str(text) for name, text in partition_of(topic)["config"].items()} | changes,
    )


def kafkas_batches(topic: str) -> list[tuple[int, Batch]]:
    """Every batch with the base offset of its segment."""
    directory = golden() / partition_of(topic)["dir"]
    return [
        (int(path.stem), batch)
        for path in sorted(directory.glob("*.log"))
        for batch in iter_batches(path.read_bytes())
    ]


def groups(topic: str) -> Iterator[tuple[int, list[Batch]]]:
    """What was appended together."""
    together: list[Batch] = []
    segment = 0
    for base_offset, batch in kafkas_batches(topic):
        is_single = batch.magic < 2 and batch.compression is Compression.NONE
        full = len(together) == SENT_TOGETHER.get(topic, 7)
        if together and (full or not is_single or base_offset != segment):
            yield segment, together
            together = []
        segment = base_offset
        if is_single:
            together.append(batch)
        else:
            yield segment, [batch]
    if together:
        yield segment, together


def as_sent(group: list[Batch]) -> bytes:
    """The set as its producer made it: offsets from 0, times of its own."""
    first = group[0]
    if first.magic == 2:
        return bytes(8) + bytes(first.bytes_view()[8:])
    if first.magic == 1 and first.compression is not Compression.NONE:
        # Kafka has kept the inside.
        wrapper = LegacyBatch(bytearray(first.bytes_view()))
        wrapper.stamp(first.record_count - 1)
        if first.timestamp_type is TimestampType.LOG_APPEND_TIME:
            wrapper.stamp_time(5, is_append_time=False)
        return bytes(wrapper.buffer)
    if first.compression is not Compression.NONE:
        builder = MessageSetBuilder(magic=first.magic, compression=first.compression)
        for record in read_records(first):
            builder.append(record.key, record.value, sent_ms(record))
        return builder.build()
    return b"".join(
        build_message(record.key, record.value, magic=one.magic, timestamp_ms=sent_ms(record))
        for one in group
        for record in read_records(one)
    )


def sent_ms(record: Record) -> int:
    return 5 if record.timestamp_type is TimestampType.LOG_APPEND_TIME else record.timestamp_ms


def new_log(path: str, config: TopicConfig) -> tuple[LogDirectory, PartitionLog]:
    options = OpenOptions(
        now_ms=NOW_MS,
        node_id=1,
        cluster_id="AAAAAAAAAAAAAAAAAAAAAQ",
        new_id=lambda: TOPIC_ID,
        random_below=lambda bound: 0,
        topic_config=lambda topic: config,
    )
    directory = LogDirectory.open(path, OsFileSystem(), options)
    return directory, directory.create_log("t", 0, TOPIC_ID)


def append(log: PartitionLog, group: list[Batch]) -> None:
    stamped = group[0].timestamp_type is TimestampType.LOG_APPEND_TIME
    now_ms = group[0].max_timestamp_ms if stamped else NOW_MS
    log.writer.append_as_leader(bytearray(as_sent(group)), leader_epoch=0, now_ms=now_ms)
    log.writer.write_out()


@pytest.mark.parametrize("topic", CASES)
def test_every_file_has_the_bytes_of_kafkas(topic: str, tmp_path: Path) -> None:
    directory, log = new_log(str(tmp_path), config_of(topic))
    for segment, group in groups(topic):
        append(log, group)
        assert log.segments.active.base_offset == segment, "rolled where Kafka did not"
    directory.close()
    ours, kafkas = files_of(tmp_path / "t-0"), files_of(golden() / partition_of(topic)["dir"])
    assert {name for name in kafkas if ours.get(name) != kafkas[name]} == set()
    assert ours.keys() == kafkas.keys()


def test_snappy_is_repacked_with_the_same_messages_inside(tmp_path: Path) -> None:
    _, log = new_log(str(tmp_path), config_of("v0-snappy"))
    for _, group in groups("v0-snappy"):
        append(log, group)
    kafkas = [batch for _, batch in kafkas_batches("v0-snappy")]
    path = tmp_path / "t-0" / "00000000000000000000.log"
    ours = list(iter_batches(path.read_bytes()))
    assert [one.last_offset for one in ours] == [one.last_offset for one in kafkas]
    assert {one.compression for one in ours} == {Compression.SNAPPY}
    read = [[record for one in some for record in read_records(one)] for some in (ours, kafkas)]
    assert read[0] == read[1]


def test_a_topic_whose_format_is_raised_twice_holds_what_kafkas_holds(tmp_path: Path) -> None:
    versions = {0: "0.9.0", 1: "0.10.0", 2: "2.8"}
    directory, log = new_log(str(tmp_path), config_of("mixed"))
    for _, group in groups("mixed"):
        config = config_of("mixed", **{"message.format.version": versions[group[0].magic]})
        log.maintenance.reconfigure(config)
        append(log, group)
    directory.close()
    ours, kafkas = files_of(tmp_path / "t-0"), files_of(golden() / partition_of("mixed")["dir"])
    assert {name for name in kafkas if ours.get(name) != kafkas[name]} == set()
    assert ours.keys() == kafkas.keys()
