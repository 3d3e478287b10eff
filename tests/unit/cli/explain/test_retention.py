"""`ottla explain retention`: what it says of a directory and of a broker, and that it is true."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import ottla
from ottla.base.timestamps import Timestamps
from ottla.cli.main import explain_group, main
from ottla.embedded.log import Log
from tests.support.brokers import NOW_MS

HOUR = 3_600_000
DAY = 24 * HOUR


def run(*arguments: object) -> Result:
    texts = ["retention", *map(str, arguments)]
    return CliRunner().invoke(explain_group, texts, catch_exceptions=False)


def told(*arguments: object) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run(*arguments, "--json").output.splitlines()]


def segments(*arguments: object) -> list[dict[str, Any]]:
    return [one for one in told(*arguments) if one["type"] == "segment"]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with ottla.open(tmp_path / "d", {"log.segment.bytes": 200}) as log:
        yield log


def fill(log: Log, topic: str, ages_h: list[int], **config: object) -> None:
    """A segment for each record, whose age in hours is given."""
    log.create_topic(topic, config=config and {k.replace("_", "."): v for k, v in config.items()})
    for age in ages_h:
        log.append(topic, b"x" * 99, b"k", timestamp_ms=NOW_MS - age * HOUR)


def test_each_segment_has_its_rule_or_what_keeps_it(log: Log, tmp_path: Path) -> None:
    fill(log, "t", [30, 26, 9, 26, 1], retention_ms=DAY)
    found = segments("t", "-d", tmp_path / "d", "--at", NOW_MS)
    assert [(one["goes"], one["rule"], one["blockers"]) for one in found] == [
        (True, "retention.ms", []),
        (True, "retention.ms", []),
        (False, None, ["not_yet"]),
        (False, "retention.ms", ["older_segment"]),
        (False, None, ["not_yet", "older_segment"]),
    ]
    assert [one["due_ms"] for one in found[2:]] == [
        NOW_MS + 15 * HOUR + 1, NOW_MS + 15 * HOUR + 1, NOW_MS + 23 * HOUR + 1
    ]  # fmt: skip
    assert [one["timestamp_from"] for one in found] == ["records"] * 5
    assert [one["is_active"] for one in found] == [False] * 4 + [True]


def test_what_is_told_to_go_is_what_goes(log: Log, tmp_path: Path) -> None:
    """Rule by rule, on the files and on the log that has them open."""
    fill(log, "time", [30, 26, 9, 26, 1], retention_ms=DAY)
    fill(log, "size", [5, 4, 3, 2], retention_bytes=340)
    fill(log, "future", [30, -9, 30, 30], retention_ms=DAY)
    fill(log, "all", [30, 30], retention_ms=DAY)
    fill(log, "compacted", [30, 30], cleanup_policy="compact,delete", retention_ms=DAY)
    expected = {}
    for topic in log.topics():
        found = segments(topic, "-d", tmp_path / "d", "--at", NOW_MS)
        expected[topic] = [one["base_offset"] for one in found if not one["goes"]]
    while log.broker.log_jobs.retention.run_slice(Timestamps(now_ms=NOW_MS, monotonic_ms=0.0)):
        pass
    for topic, left in expected.items():
        logs = log.broker.topics.partition(topic, 0).log.segments.values
        assert [one.base_offset for one in logs if one.size] == left
    assert expected["all"] == []
    assert expected["size"] == [2, 3]
    assert expected["future"] == [1, 2, 3]


def test_every_change_that_is_named_works(log: Log, tmp_path: Path) -> None:
    fill(log, "t", [9, 8, 7], retention_ms=DAY)
    first = segments("t", "-d", tmp_path / "d", "--at", NOW_MS)[0]
    changes = [text.rpartition(" ")[2] for text in first["changes"]]
    assert changes == [f"retention.ms={9 * HOUR - 1}", f"retention.bytes={2 * first['size']}"]
    for change in changes:
        with_it = segments("t", "-d", tmp_path / "d", "--at", NOW_MS, "-o", change)
        assert [one["goes"] for one in with_it] == [True, False, False]


def test_a_future_timestamp_is_named_with_the_ways_out(log: Log, tmp_path: Path) -> None:
    fill(log, "t", [-9, 8], retention_ms=HOUR)
    first, second = segments("t", "-d", tmp_path / "d", "--at", NOW_MS)
    assert first["blockers"] == ["future_timestamp"]
    assert first["changes"][0] == f"ottla delete-records {tmp_path / 'd'} t -p 0 --before 1"
    assert any("message.timestamp.after.max.ms" in one for one in first["changes"])
    assert second["blockers"] == ["older_segment"]


def test_a_person_gets_a_table(log: Log, tmp_path: Path) -> None:
    fill(log, "t", [30, 9], retention_ms=DAY)
    lines = run("t", "-d", tmp_path / "d", "--at", "2023-11-14T22:13:20").output.splitlines()
    assert lines[0].startswith(
        "settings from the metadata log (__cluster_metadata), Kafka's defaults"
    )
    assert lines[2] == f"{tmp_path}/d/t-0: offsets 0 to 2, 340 bytes in 2 segments"
    assert lines[3] == "cleanup.policy=delete retention.ms=86400000 retention.bytes=-1"
    rows = [" ".join(line.split()) for line in lines]
    assert "0 170 2023-11-13 16:13:20 at the next check retention.ms" in rows
    assert "1 (active) 170 2023-11-14 13:13:20 2023-11-15 13:13:20 within retention.ms" in rows
    assert "to have the segment at 1 deleted now, any of:" in rows


def test_of_many_segments_those_around_the_first_that_stays_are_shown(
    log: Log, tmp_path: Path
) -> None:
    fill(log, "t", [30] * 10 + [9] * 10, retention_ms=DAY)
    output = run("t", "-d", tmp_path / "d", "--at", NOW_MS).output
    assert "8 segments more; --all shows them" in output
    assert output.count("at the next check") == 6
    everything = run("t", "-d", tmp_path / "d", "--at", NOW_MS, "--all").output
    assert everything.count("at the next check") == 10


def test_what_waits_to_be_removed_is_reported(log: Log, tmp_path: Path) -> None:
    fill(log, "t", [30, 9], retention_ms=DAY, local_retention_ms=5)
    log.broker.log_jobs.retention.run_slice(Timestamps(now_ms=NOW_MS, monotonic_ms=0.0))
    partition = told("t", "-d", tmp_path / "d", "--at", NOW_MS)[0]
    assert partition["waiting_files"] == 3
    assert partition["notes"][0].startswith("3 files of ")
    assert partition["notes"][1] == (
        "local.retention.ms=5 has no effect without remote.storage.enable=true"
    )


def test_a_running_broker_is_asked_for_its_settings_and_directories(log: Log) -> None:
    fill(log, "t", [30, 9], retention_ms=DAY)
    address = log.listen("127.0.0.1:0").address
    partition, first, second = told("t", "-b", address, "--at", NOW_MS)
    assert partition["settings_from"] == "the running broker"
    assert partition["settings"]["segment.bytes"] == 200
    assert (first["goes"], second["goes"]) == (True, False)
    assert f"ottla configs set {address} " in second["changes"][0]


def test_a_broker_on_another_machine_says_what_it_can(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.client.administration.doctor.are_local", lambda *_: False)
    fill(log, "t", [30, 9], retention_ms=DAY, retention_bytes=200)
    address = log.listen("127.0.0.1:0").address
    (found,) = told("t", "-b", address, "--at", NOW_MS)
    assert found["type"] == "partition_from_afar"
    assert found["all_gone_by_ms"] == NOW_MS - 9 * HOUR + DAY + 1
    assert found["bytes_over_limit"] == 140
    text = run("t", "-b", address, "--at", NOW_MS).output
    assert "brokers do not report segments and their times" in text
    assert "deleted by 2023-11-15 13:13:20.001 at the latest; 140 bytes above" in text


@pytest.mark.usefixtures("without_pauses")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["t", "-d", "DIR", "-p", "7"], "topic t has no partition 7 here; it has [0]"),
        (["t", "-d", "DIR", "--at", "soon"], "--at soon: a time is 2026-01-31T12:00:00, or "
         "milliseconds"),
        (["t", "-d", "DIR", "-o", "retention.m=1"],
         "retention.m: there is no such setting; did you mean retention.ms?"),
        (["t", "-b", "127.0.0.1:1"], "127.0.0.1:1: Connection refused; name a broker's HOST:PORT"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_and_exit_code_2(
    arguments: list[str],
    message: str,
    log: Log,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fill(log, "t", [1])
    directory = str(tmp_path / "d")
    with pytest.raises(SystemExit) as stop:
        main(["explain", "retention", *(one.replace("DIR", directory) for one in arguments)])
    assert stop.value.code == 2
    assert capsys.readouterr().err == f"ottla: {message.replace('DIR', directory, 1)}\n"


TIERED = ("-o", "remote.storage.enable=true", "-o", "local.retention.ms=86400000")


def test_of_a_tiered_topic_what_is_not_in_the_tier_stays(log: Log, tmp_path: Path) -> None:
    fill(log, "t", [30, 26, 9])
    partition, *found = told("t", "-d", tmp_path / "d", "--at", NOW_MS, *TIERED)
    assert [(one["goes"], one["rule"], one["blockers"]) for one in found] == [
        (False, "local.retention.ms", ["not_in_tier"]),
        (False, "local.retention.ms", ["not_in_tier", "older_segment"]),
        (False, None, ["not_in_tier", "not_yet", "older_segment"]),
    ]
    assert (partition["local_start_offset"], partition["highest_remote_offset"]) == (0, -1)
    assert partition["settings"]["local.retention.ms"] == DAY
    assert partition["notes"][0].startswith("it is not known here what the tier has")
    output = run("t", "-d", tmp_path / "d", "--at", NOW_MS, *TIERED).output
    assert "when the tier has it" in output
    assert "wait: a broker with the tier copies the segment once it is rolled" in output


def test_where_copies_are_disabled_the_limits_are_those_of_the_whole_log(
    log: Log, tmp_path: Path
) -> None:
    fill(log, "t", [30, 9], retention_ms=DAY)
    disabled = (*TIERED[:2], "-o", "remote.log.copy.disable=true")
    partition, *found = told("t", "-d", tmp_path / "d", "--at", NOW_MS, *disabled)
    assert [one["rule"] for one in found] == ["retention.ms", None]
    assert "remote.log.copy.disable=true" in partition["notes"][0]
