"""Kafka 0.7's files through `ottla records` and `ottla import --from 0.7`."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import ottla
from ottla.cli.main import cli
from ottla.record.record import Record
from tests.support.kafka_07 import GZIP, message, wrapper, write_log


@pytest.fixture
def old(tmp_path: Path) -> Path:
    directory = tmp_path / "old"
    files = [message(b"a", magic=0) + wrapper([b"b", b"c"], GZIP), message(b"d")]
    write_log(directory, "my_topic", 0, files)
    write_log(directory, "my_topic", 1, [message(b"e")])
    return directory


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(one) for one in arguments])


def imported(data: Path) -> list[list[Record]]:
    with ottla.open(data) as log:
        return [list(log.read("my_topic", number)) for number in range(2)]


def test_a_directory_is_imported_partition_by_partition(old: Path, tmp_path: Path) -> None:
    done = run("import", tmp_path / "new", "my_topic", old, "--from", "0.7", "--create")
    assert done.exit_code == 0, done.output
    values = [[one.value for one in records] for records in imported(tmp_path / "new")]
    assert values == [[b"a", b"b", b"c", b"d"], [b"e"]]


@pytest.mark.slow
def test_an_import_continues_where_it_was_interrupted(old: Path, tmp_path: Path) -> None:
    data = tmp_path / "new"
    with ottla.open(data) as log:
        log.create_topic("my_topic", partitions=2)
        log.append("my_topic", b"a", partition=0)
        log.append("my_topic", b"b", partition=0)
    options = ("--from", "0.7", "--positions")
    assert run("import", data, "my_topic", old, *options).exit_code == 0
    first, second = imported(data)
    assert [one.value for one in first] == [b"a", b"b", b"c", b"d"]
    assert first[2].headers == (("kafka-0.7-position", b"10"),)
    assert [one.value for one in second] == [b"e"]
    assert "imported 0 records" in run("import", data, "my_topic", old, *options).output
    assert imported(data) == [first, second]


def test_other_records_in_the_topic_are_refused(old: Path, tmp_path: Path) -> None:
    with ottla.open(tmp_path / "new") as log:
        log.create_topic("my_topic", partitions=2)
        log.append("my_topic", b"another", partition=1)
    done = run("import", tmp_path / "new", "my_topic", old, "--from", "0.7")
    assert done.exit_code == 2
    assert "my_topic-1 has 1 records that are not those of" in done.output


def test_what_is_no_such_directory_or_topic_is_named(old: Path, tmp_path: Path) -> None:
    done = run("import", tmp_path / "new", "my_topics", old, "--from", "0.7", "--create")
    assert "there is no topic my_topics; there are my_topic" in done.output
    done = run("import", tmp_path / "new", "my_topic", tmp_path, "--from", "0.7", "--create")
    assert "no log directory of Kafka 0.7" in done.output
    done = run("import", tmp_path / "new", "my_topic", old, "--from", "0.7")
    assert done.exit_code == 2


def test_records_prints_them_with_their_positions(old: Path) -> None:
    done = run("records", old, "my_topic")
    assert done.exit_code == 0, done.output
    lines = [line.split("\t") for line in done.output.splitlines()]
    assert lines[0][:2] == ["my_topic-0", "0"]
    assert len(lines) == 5
