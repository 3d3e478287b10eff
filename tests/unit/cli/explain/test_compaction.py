"""`ottla explain compaction`: what it says of a directory and of a broker, and that it is true."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import ottla
from ottla.base.errors import UserError
from ottla.base.files import OsFileSystem
from ottla.base.timestamps import Timestamps
from ottla.broker.log_jobs.cleaner_troubles import DamagedSegment, Trouble, write_troubles
from ottla.cli.main import explain_group
from ottla.embedded.log import Log
from ottla.record.builder import RecordBatchBuilder
from ottla.storage.compaction.compaction import Surroundings, compact
from ottla.storage.compaction.key_filter import PlainKeyFilter
from tests.support.brokers import NOW_MS

HOUR = 3_600_000
DAY = 24 * HOUR
AT = Timestamps(now_ms=NOW_MS, monotonic_ms=0.0)


def run(*arguments: object) -> Result:
    texts = ["compaction", *map(str, arguments), "--at", str(NOW_MS)]
    return CliRunner().invoke(explain_group, texts, catch_exceptions=False)


def told(*arguments: object) -> list[dict[str, Any]]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.output.splitlines()]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """Its cleaner does nothing by itself."""
    settings = {"log.segment.bytes": 200, "log.cleaner.threads": 1, "log.cleaner.enable": False}
    with ottla.open(tmp_path / "d", settings) as log:
        yield log


def fill(log: Log, topic: str, ages_h: list[int], **config: object) -> None:
    """A segment for each record, all of one key, whose age in hours is given."""
    settings = {"cleanup.policy": "compact", **{k.replace("_", "."): v for k, v in config.items()}}
    log.create_topic(topic, config=settings)
    for age in ages_h:
        log.append(topic, b"x" * 99, b"k", timestamp_ms=NOW_MS - age * HOUR)


def clean(log: Log, topic: str) -> bool:
    """What the cleaner does with a topic, if it is due; only what is flushed is compacted."""
    log.flush()
    cleaner = log.broker.log_jobs.cleaner
    task = cleaner.next_task(AT)
    if task is None:
        return False
    assert task.key == (topic, 0)
    key_filter = PlainKeyFilter(task.plan.map_bytes, task.plan.load_factor)
    result = compact(task.plan, key_filter, Surroundings(file_system=OsFileSystem()))
    cleaner.finish(task, result, AT)
    return True


def test_each_segment_is_clean_dirty_uncleanable_or_active(log: Log, tmp_path: Path) -> None:
    fill(log, "t", [30, 26, 9], min_cleanable_dirty_ratio="0")
    assert clean(log, "t")
    for age in (8, 7, 1, 1):
        log.append("t", b"x" * 99, b"k", timestamp_ms=NOW_MS - age * HOUR)
    change = f"min.compaction.lag.ms={2 * HOUR}"
    partition, *segments = told("t", "-d", tmp_path / "d", "-o", change)
    states = [(one["base_offset"], one["state"]) for one in segments]
    expected = ["clean"] * 2 + ["dirty"] * 3 + ["uncleanable", "active"]
    assert states == list(enumerate(expected))
    assert (partition["cleaned_until"], partition["end_offset"]) == (2, 5)
    assert (partition["bound"], partition["will_be_compacted"]) == ("min_compaction_lag", True)
    assert segments[-2]["waits_until_ms"] == NOW_MS + HOUR
    assert any(one.endswith("min.compaction.lag.ms=0") for one in partition["changes"])


def test_what_is_reported_is_what_the_cleaner_does(log: Log, tmp_path: Path) -> None:
    fill(log, "t", [30, 26, 9], min_cleanable_dirty_ratio="0.6")
    assert told("t", "-d", tmp_path / "d")[0]["will_be_compacted"]
    assert clean(log, "t")
    partition = told("t", "-d", tmp_path / "d")[0]
    assert (partition["waits"], partition["will_be_compacted"]) == ("nothing_dirty", False)
    log.append("t", b"x" * 99, b"k", timestamp_ms=NOW_MS)
    partition = told("t", "-d", tmp_path / "d")[0]
    assert (partition["waits"], partition["ratio"]) == ("ratio", 0.5)
    assert partition["verdict"] == (
        "waits: the dirty ratio 0.500 is not above min.cleanable.dirty.ratio=0.6"
    )
    assert not clean(log, "t")


def test_every_change_of_the_ratio_that_is_named_works(log: Log, tmp_path: Path) -> None:
    fill(log, "t", [30, 26, 9], min_cleanable_dirty_ratio="0.6")
    clean(log, "t")
    log.append("t", b"x" * 99, b"k", timestamp_ms=NOW_MS)
    partition = told("t", "-d", tmp_path / "d")[0]
    commands = [one.rpartition(" ")[2] for one in partition["changes"] if "ratio=" in one]
    commands += [one.rpartition(" ")[2] for one in partition["changes"] if "max." in one]
    assert commands == ["min.cleanable.dirty.ratio=0.499", f"max.compaction.lag.ms={9 * HOUR - 1}"]
    for change in commands:
        assert told("t", "-d", tmp_path / "d", "-o", change)[0]["will_be_compacted"]
    missing = next(one for one in partition["changes"] if "more bytes" in one)
    assert missing.startswith("86 more bytes")


def test_an_open_transaction_is_named_with_its_producer(log: Log, tmp_path: Path) -> None:
    fill(log, "t", [5, 4])
    builder = RecordBatchBuilder(
        producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    builder.append(b"k", b"x" * 99, NOW_MS)
    partition_log = log.broker.topics.partition("t", 0).log
    partition_log.writer.append_as_leader(bytearray(builder.build()), leader_epoch=0, now_ms=NOW_MS)
    log.broker.appends.write_out()
    for _ in range(2):
        log.append("t", b"x" * 99, b"k", timestamp_ms=NOW_MS)
    partition = told("t", "-d", tmp_path / "d")[0]
    assert partition["bound"] == "last_stable_offset"
    assert partition["open_transaction"] == {"producer_id": 7, "first_offset": 2}
    assert any("--partition 0 --start-offset 2" in one for one in partition["changes"])
    assert "producer 7 has a transaction open from 2" in run("t", "-d", tmp_path / "d").output


def test_a_topic_that_is_not_compacted_is_reported_with_the_remedy(
    log: Log, tmp_path: Path
) -> None:
    fill(log, "t", [5, 4], cleanup_policy="delete")
    partition = told("t", "-d", tmp_path / "d")[0]
    assert partition["verdict"] == "is never compacted: cleanup.policy=delete"
    assert partition["changes"][0].endswith("cleanup.policy=compact")


def test_a_directory_may_be_named_with_a_slash_at_its_end(log: Log, tmp_path: Path) -> None:
    fill(log, "t", [1])
    (partition, _) = told(f"{tmp_path}/d/", "t")
    assert partition["topic"] == "t"


def test_a_switched_off_cleaner_is_reported(log: Log, tmp_path: Path) -> None:
    fill(log, "t", [5, 4])
    properties = tmp_path / "server.properties"
    properties.write_text("log.cleaner.enable=false\n")
    partition = told("t", "-d", tmp_path / "d", "--config", properties)[0]
    assert partition["verdict"] == "is not compacted: log.cleaner.enable=false"
    assert not partition["will_be_compacted"]


def test_failures_and_segments_set_aside_are_reported_with_the_fix(
    log: Log, tmp_path: Path
) -> None:
    fill(log, "t", [5, 4, 3])
    damaged = DamagedSegment(base_offset=1, reason="a bad batch", size=1, modified_ms=1)
    trouble = Trouble(
        failure_count=2, reason="no memory", failed_ms=NOW_MS - 1000, damaged=(damaged,)
    )
    write_troubles(OsFileSystem(), str(tmp_path / "d"), {("t", 0): trouble})
    partition = told("t", "-d", tmp_path / "d")[0]
    assert partition["set_aside"] == [1]
    assert partition["retry_ms"] == NOW_MS - 1000 + 2 * 15_000
    assert partition["verdict"].endswith("UTC: no memory") or "no memory" in partition["verdict"]
    assert any("ottla log repair --in-place" in one for one in partition["changes"])
    assert "2 tries in a row failed" in run("t", "-d", tmp_path / "d").output


def test_a_person_gets_a_table(log: Log, tmp_path: Path) -> None:
    fill(log, "t", [30, 9], max_compaction_lag_ms=DAY)
    lines = run("t", "-d", tmp_path / "d").output.splitlines()
    assert lines[2] == (
        f"{tmp_path}/d/t-0: is compacted when a cleaner thread is next free: "
        "max.compaction.lag.ms has passed"
    )
    rows = [" ".join(line.split()) for line in lines]
    assert any(row.endswith("would be compacted by a pass now") for row in rows)
    assert any(row.endswith("active, which is never compacted") for row in rows)
    assert "note: max.compaction.lag.ms has passed since 2023-11-14 16:13:20" in rows


def test_a_running_broker_is_asked_for_its_settings_and_directories(log: Log) -> None:
    fill(log, "t", [30, 9])
    address = log.listen("127.0.0.1:0").address
    partition = told("t", "-b", address)[0]
    assert partition["settings_from"] == "the running broker"
    assert partition["verdict"] == "is not compacted: log.cleaner.enable=false"
    assert all(address in one for one in partition["changes"] if "ottla " in one)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x", "-d", "DIR"], "there is no topic x in DIR; there is t"),
        (["t", "-d", "DIR", "-p", "7"], "topic t has no partition 7 here; it has [0]"),
    ],
)
def test_what_cannot_be_reported_is_said_in_one_line(
    arguments: list[str], message: str, log: Log, tmp_path: Path
) -> None:
    fill(log, "t", [1])
    directory = str(tmp_path / "d")
    texts = [one.replace("DIR", directory) for one in arguments]
    with pytest.raises(UserError) as caught:
        run(*texts)
    message = message.replace("DIR", directory)
    assert str(caught.value) == message
