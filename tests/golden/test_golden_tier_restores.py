"""Tiers that Kafka filled: they are whole, and logs restored from them are what consumers read."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import ottla
from ottla.base.partitions import TopicPartition
from ottla.cli.main import cli
from ottla.storage.tiers.contents import Role
from tests.golden.test_golden_remote_log_metadata import RECORDED, each_case, logs
from tests.golden.test_golden_remote_log_metadata import pytestmark as needs_recorded
from tests.golden.test_golden_tiers import text_of

pytestmark = [needs_recorded, pytest.mark.slow]

UNREAD = {"5-leader-changes": {Role.OTHER_LINEAGE.value, Role.COPYING.value}}
"""What lies there besides what is read, by the cases' README."""


def run(case: str, command: str, *words: str) -> Result:
    place = ["--tier", str(RECORDED / case / "tier")]
    if (RECORDED / case / "keys").exists():
        place += ["--tier-key", str(RECORDED / case / "keys")]
    return CliRunner().invoke(cli, ["tier", command, *words, *place])


def objects(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, (result.output, result.exception)
    return [json.loads(line) for line in result.stdout.splitlines()]


def directory_of(case: str) -> str:
    return str(logs(case)[0].directory.path)


@each_case
@pytest.mark.parametrize("with_directory", [True, False])
def test_a_recorded_tier_is_whole(case: str, with_directory: bool) -> None:
    words = [directory_of(case)] if with_directory else []
    *found, summary = objects(run(case, "check", *words, "--deep", "--json"))
    assert summary["is_sound"]
    assert summary["records"] > 0
    kinds = {one["kind"] for one in found}
    has_half = case in ("5-leader-changes", "8-killed-while-copying")
    assert kinds == ({"remote_orphan"} if has_half else set())


@each_case
def test_what_is_read_of_a_recorded_tier_is_what_its_log_lacks(case: str) -> None:
    listed = objects(run(case, "list", directory_of(case), "--json"))
    for log in logs(case):
        here = [
            one
            for one in listed
            if (one["topic"], one["partition"]) == (log.row["topic"], log.row["partition"])
        ]
        read = [offsets for one in here for offsets in one["read_offsets"]]
        due = log.row["logStartOffset"]
        for first, last in sorted(read):
            assert first == due
            due = last + 1
        assert due >= log.local_start
        others = {one["state"] for one in here} - {"read", "also local"}
        expected = UNREAD.get(case, {"unfinished"} if "killed" in case else set())
        assert others <= expected


@each_case
@pytest.mark.parametrize("with_records", [True, False])
def test_a_log_restored_from_a_recorded_tier_is_what_consumers_read(
    case: str, with_records: bool, tmp_path: Path
) -> None:
    target = tmp_path / "restored"
    words = ["--records", directory_of(case)] if with_records else []
    done = objects(run(case, "restore", str(target), *words, "--json"))
    restored = {
        TopicPartition(one["topic"], one["partition"]): one
        for one in done
        if one["type"] == "partition"
    }
    rows = {TopicPartition(one.row["topic"], one.row["partition"]): one.row for one in logs(case)}
    served = read_served(target, {key: one["log_start_offset"] for key, one in restored.items()})
    for key, one in restored.items():
        row = rows[key]
        start, end = one["log_start_offset"], one["log_end_offset"]
        assert start == row["logStartOffset"]
        assert one["topic_id"] == row["topicId"]
        expected = [each for each in row["records"] if start <= each["offset"] < end]
        assert served[key] == [
            {name: each[name] for name in ("offset", "timestamp", "key", "value", "headers")}
            for each in expected
        ]
        # A transaction whose end was only local is open again, and ends what is stable.
        committed = [offset for offset in row["readCommittedOffsets"] if start <= offset < end]
        found = read_committed(target, key)
        assert found == committed[: len(found)]
        assert found or not committed or "tx" in key.topic
    check = CliRunner().invoke(cli, ["log", "check", str(target), "--deep"])
    assert check.exit_code == 0, check.output


def read_served(target: Path, starts: dict[TopicPartition, int]) -> dict[TopicPartition, Any]:
    """What a consumer reads of a broker on the directory."""
    found: dict[TopicPartition, Any] = {key: [] for key in starts}
    settings = {"isolation.level": "read_uncommitted"}
    with (
        ottla.open(target, {"log.cleaner.enable": "false"}) as log,
        ottla.Consumer(log.listen("127.0.0.1:0").address, settings=settings) as consumer,
    ):
        ends = consumer.end_offsets(starts)
        consumer.assign(starts)
        while any(consumer.position(key) < ends[key] for key in starts):
            for record in consumer.consume(1000, 0.05):
                found[TopicPartition(record.topic, record.partition)].append(
                    {
                        "offset": record.offset,
                        "timestamp": record.timestamp,
                        "key": text_of(record.key),
                        "value": text_of(record.value),
                        "headers": [[name, text_of(value)] for name, value in record.headers],
                    }
                )
    return found


def read_committed(target: Path, key: TopicPartition) -> list[int]:
    with ottla.open(target, read_only=True) as log:
        return [one.offset for one in log.read(key.topic, partition=key.partition)]


def test_the_segments_of_a_recorded_log_are_explained() -> None:
    heading, *rows = objects(
        run("1-basic", "explain", directory_of("1-basic"), "-t", "plain", "--json")
    )
    assert (heading["log_start_offset"], heading["last_tiered_offset"]) == (0, 839)
    assert heading["local_start_offset"] == 700
    assert {one["state"] for one in rows} == {"read", "also local", "copied", "not copied"}
