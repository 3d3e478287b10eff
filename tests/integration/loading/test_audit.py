"""Audits of tables that were loaded: sound ones, and ones that were tampered with."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ottla
from ottla.cli.main import main
from ottla.loading.auditing.audit import audit
from ottla.sources.opening import open_log, source_options
from ottla.sources.options import parse_options
from ottla.table import files as table_files
from ottla.tables.table import Table
from tests.golden.directories import GOLDEN
from tests.support.auditing import audited
from tests.support.local_loads import load
from tests.support.topics import append


def data_files(path: Path) -> list[Path]:
    return sorted(Path(one) for one in table_files(str(path / "table")))


def entry_file(path: Path, number: int) -> Path:
    return path / "table" / "_ottla" / "ledger" / f"{number:020d}.json"


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Changes the first data file's rows, and makes the ledger agree with its new size."""
    file = data_files(path)[0]
    rows = change(pq.read_table(file))
    old_size = file.stat().st_size
    pq.write_table(rows, file, compression="zstd")
    for number in (0, 1):
        text = entry_file(path, number).read_text()
        entry_file(path, number).write_text(
            text.replace(f'"size": {old_size},', f'"size": {file.stat().st_size},')
        )


def test_a_table_that_was_loaded_equals_its_log(loaded: Path) -> None:
    report = audited(loaded)
    assert report.differences == []
    assert (report.loads, report.rows) == (2, 780)
    assert report.rows_counted == report.rows_compared == 780
    assert report.batches_matched == 28 + 2 + 2 + 1
    assert report.unseen == []


def test_one_changed_value_is_found_and_named(loaded: Path) -> None:
    def change(rows: pa.Table) -> pa.Table:
        values = rows["value"].to_pylist()
        values[17] = b"forged"
        return rows.set_column(rows.schema.get_field_index("value"), "value", pa.array(values))

    rewrite(loaded, change)
    (found,) = audited(loaded).differences
    assert found.kind == "row"
    assert "value is b'forged', in the log b'\\x00value" in found.text


def test_a_row_that_is_there_twice_in_place_of_another_is_found(loaded: Path) -> None:
    def change(rows: pa.Table) -> pa.Table:
        return pa.concat_tables([rows.slice(0, 5), rows.slice(4, 1), rows.slice(6)])

    rewrite(loaded, change)
    (found,) = audited(loaded).differences
    assert found.kind == "row"
    assert "only one of table and log has this record" in found.text


@pytest.mark.parametrize("way", ["missing", "cut", "another"])
def test_a_file_that_is_not_the_ledgers_is_named(loaded: Path, way: str) -> None:
    files = data_files(loaded)
    match way:
        case "missing":
            files[0].unlink()
        case "cut":
            files[0].write_bytes(files[0].read_bytes()[:-40])
        case "another":
            files[0].write_bytes(files[-1].read_bytes())
    found = audited(loaded).differences
    assert [one.kind for one in found] == ["file"]
    assert files[0].name in found[0].text


def test_a_load_that_is_taken_out_of_the_ledger_is_a_gap(loaded: Path) -> None:
    fields = json.loads(entry_file(loaded, 1).read_text())
    for one in fields["partitions"]:
        one["from_offset"] += 2
    entry_file(loaded, 1).write_text(json.dumps(fields))
    kinds = {one.kind for one in audited(loaded).differences}
    assert "gap" in kinds


def test_a_log_whose_batches_are_others_now_is_found_though_its_records_are_as_many(
    loaded: Path,
) -> None:
    with ottla.open(loaded / "log") as log:
        log.delete_topic("orders")
    append(loaded / "log", {0: 741, 1: 39})
    fields = json.loads(entry_file(loaded, 0).read_text())
    for one in fields["partitions"]:
        one["topic_id"] = None
    entry_file(loaded, 0).write_text(json.dumps(fields))
    fields = json.loads(entry_file(loaded, 1).read_text())
    for one in fields["partitions"]:
        one["topic_id"] = None
    entry_file(loaded, 1).write_text(json.dumps(fields))
    found = audited(loaded, compare_all=False).differences
    assert "batches" in {one.kind for one in found}
    assert "the log's batches differ from those that were loaded" in found[0].text


def test_a_row_that_two_files_have_is_found_before_the_log_is_asked(loaded: Path) -> None:
    def change(rows: pa.Table) -> pa.Table:
        return pa.concat_tables([rows.slice(0, 5), rows.slice(4)])

    rewrite(loaded, change)
    fields = json.loads(entry_file(loaded, 0).read_text())
    fields["files"][0]["row_count"] += 1
    fields["partitions"][0]["row_count"] += 1
    entry_file(loaded, 0).write_text(json.dumps(fields))
    found = audited(loaded).differences
    assert [one.kind for one in found] == ["overlap"]
    assert "are duplicated" in found[0].text


def test_what_retention_has_removed_is_reported_and_the_rest_compared(loaded: Path) -> None:

    with ottla.open(loaded / "log") as log:
        log.broker.topics.partition("orders", 0).log.maintenance.delete_records_before(700)
    report = audited(loaded)
    assert report.is_equal
    assert [(number, one.until_offset) for number, one in report.unseen] == [(0, 700)]
    assert report.rows_compared == 80


@pytest.mark.skipif(not GOLDEN.exists(), reason="the directories written by Kafka are not here")
@pytest.mark.parametrize(
    ("case", "topic"), [("txn", "txn"), ("compaction-1-after", "cmp"), ("basic-zstd", "basic-zstd")]
)
def test_tables_of_kafkas_own_directories_equal_them(case: str, topic: str, tmp_path: Path) -> None:
    source = str(GOLDEN / case / "logdir")
    load(source, topic, str(tmp_path / "table"))
    log = open_log(parse_options({**source_options(source), "subscribe": topic}))
    report = audit(Table(str(tmp_path / "table")), log, topic, compare_all=True)
    assert report.differences == []
    assert report.rows_compared == report.rows > 0


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(["audit", *arguments])
    return end.value.code if isinstance(end.value.code, int) else 0


def test_the_command_says_equal_or_names_the_difference(
    loaded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [str(loaded / "log"), "--topic", "orders", "--table", str(loaded / "table")]
    assert run(*arguments, "--all") == 0
    said = capsys.readouterr().out
    assert "orders are equal: 2 loads; " in said
    assert "; 780 counted in the log, 33 batches matched, 780 rows compared" in said
    data_files(loaded)[0].unlink()
    assert run(*arguments, "--json") == 1
    told = json.loads(capsys.readouterr().out)
    assert told["is_equal"] is False
    assert "it is missing" in told["differences"][0]["text"]
    assert run(*arguments[:-1], str(loaded / "nowhere")) == 2
