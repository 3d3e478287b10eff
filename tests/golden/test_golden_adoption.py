"""Directories of Apache Kafka, adopted with settings that a person gives: no record goes."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from ottla.base.timestamps import Timestamps
from ottla.cli.directory.adopt import adopt_command
from ottla.storage.reading.read_only_directory import open_for_reading
from tests.golden.directories import CASES, copy_of
from tests.golden.test_golden_reader import GoldenPartition, check_records, manifest
from tests.support.serving import open_broker

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CASES, reason="the golden directories are not here"),
]

YEARS_MS = 10 * 365 * 24 * 3600 * 1000


@pytest.mark.parametrize("case", [case for case in CASES if "partitions" in manifest(case)])
def test_an_adopted_directory_has_kafkas_records_ten_years_later(case: str, tmp_path: Path) -> None:
    directory = copy_of(case, tmp_path / "data")
    partitions = [GoldenPartition(case, told) for told in manifest(case)["partitions"]]
    topics = {one.told["topic"]: {"retention.ms": -1} for one in partitions}
    given = {name: overrides for name, overrides in topics.items() if not name.startswith("__")}
    file = tmp_path / "topics.json"
    file.write_text(json.dumps(given))
    adopted = CliRunner().invoke(
        adopt_command, [str(directory), "--config", str(file), "--yes"], catch_exceptions=False
    )
    assert adopted.exit_code == 0, adopted.output
    let_years_pass(directory)
    read = open_for_reading(str(directory))
    for one in partitions:
        check_records(read.partition(one.told["topic"], one.told["partition"]), one)


def let_years_pass(directory: Path) -> None:
    broker = open_broker(directory)
    for number in range(1, 6):
        now = Timestamps(now_ms=1_900_000_000_000 + YEARS_MS, monotonic_ms=number * 400_000.0)
        broker.scheduler.run_due(now)
    broker.close()
