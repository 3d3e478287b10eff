"""A table of the former format becomes a Delta table, wherever the conversion was cut off."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

import ottla
import ottla.table
from ottla.base.errors import UserError
from ottla.base.files import OsFileSystem
from ottla.cli.main import cli
from ottla.loading.auditing.audit import audit
from ottla.loading.compaction import CompactOptions, compact
from ottla.loading.job import LoadOptions, LoadPlace
from ottla.loading.load import load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.loading.task import OnError
from ottla.sources.opening import open_log, topic_options
from ottla.tables.conversion import FORMER_MANIFEST, convert
from ottla.tables.layout import LayoutOptions, Partitioning, PartitionUnit, layout_fields
from ottla.tables.ledger_entries import FileRole, entry_fields
from ottla.tables.table_directory import FORMER_MARKER, TableDirectory
from ottla.tables.values.decoder import Decoding, ValueFormat

deltalake = pytest.importorskip("deltalake")

OPTIONS = LoadOptions(
    min_partitions=2,
    on_error=OnError.QUARANTINE,
    layout=LayoutOptions(
        decoding=Decoding(format=ValueFormat.JSON, schema="id bigint"),
        partitioning=Partitioning(unit=PartitionUnit.DAY),
    ),
)


def append(path: Path, count: int) -> None:
    with ottla.open(path / "log") as log:
        if "orders" not in log.topics():
            log.create_topic("orders", config={"retention.ms": -1})
        for number in range(count):
            value = b"broken" if number % 5 == 3 else b'{"id": %d}' % number
            log.append("orders", value, timestamp_ms=1_700_000_000_000 + number * 20_000_000)


def load_new(path: Path) -> None:
    place = LoadPlace(str(path / "log"), "orders", str(path / "table"))
    load(load_job(place, LocalEngine(), options=OPTIONS))


def make_former(table: Path) -> None:
    """Takes what a table has back into the former format."""
    opened = TableDirectory(str(table))
    entries, layout = opened.entries(), opened.layout()
    manifest = table / FORMER_MANIFEST
    manifest.mkdir()
    for entry in entries:
        fields = entry_fields(entry)
        for name in ("layout", "version_made"):
            fields.pop(name, None)
        for file in fields["files"]:
            file.pop("times", None)
            file["path"] = moved_back(table, file["path"])
        text = json.dumps(fields, indent=1)
        (manifest / f"{entry.commit_id:020d}.json").write_text(text)
    marker = {"format": "ottla table", "version": 2, "layout": layout_fields(layout)}
    (table / FORMER_MARKER).write_text(json.dumps(marker))
    (table / "_ottla" / "current.txt").write_text("")
    for gone in ("_delta_log", "_ottla/ledger", "_ottla/quarantine"):
        shutil.rmtree(table / gone)


def moved_back(table: Path, path: str) -> str:
    if not path.startswith("_ottla/quarantine/"):
        return path
    directory, _, name = path.removeprefix("_ottla/quarantine/").rpartition("/")
    target = table / "data" / directory / "quarantine" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(table / path, target)
    return str(target.relative_to(table))


@pytest.fixture
def former(tmp_path: Path) -> Path:
    for count in (12, 7):
        append(tmp_path, count)
        load_new(tmp_path)
    compact(str(tmp_path / "table"), LocalEngine(), options=CompactOptions())
    make_former(tmp_path / "table")
    return tmp_path


def assert_converted(path: Path) -> None:
    table = str(path / "table")
    opened = TableDirectory(table)
    log = open_log(topic_options(str(path / "log"), "orders"))
    report = audit(opened, log, "orders", compare_all=True)
    assert report.differences == []
    assert (report.rows, report.quarantined) == (16, 3)
    assert deltalake.DeltaTable(table).to_pyarrow_table().num_rows == 16
    aside = [one.path for one in opened.current_files() if one.role is FileRole.QUARANTINE]
    assert aside
    assert all(one.startswith("_ottla/quarantine/") for one in aside)
    left = {one.name for one in (path / "table" / "_ottla").iterdir()}
    assert left == {"ledger", "lock", "hours", "quarantine", "manifest"}


def test_a_converted_table_is_audited_read_and_loaded_into_as_before(former: Path) -> None:
    before = {path: path.stat().st_ino for path in (former / "table" / "data").rglob("part*")}
    with pytest.raises(UserError, match="ottla table convert"):
        load_new(former)
    result = CliRunner().invoke(cli, ["table", "convert", str(former / "table")])
    assert "is a Delta table now: 3 commits, " in result.output, result.output
    assert_converted(former)
    rows = {path for path in before if "quarantine" not in str(path)}
    assert {path: path.stat().st_ino for path in rows} == {path: before[path] for path in rows}
    append(former, 5)
    load_new(former)
    found = ottla.table.dataset(str(former / "table")).to_table()
    assert (found.num_rows, len(set(found["day"].to_pylist()))) == (20, 4)


def test_a_conversion_that_stops_anywhere_is_completed_by_the_next(
    former: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0
    limit = 0

    class Stopped(BaseException):
        pass

    def counted(name: str) -> None:
        real = getattr(OsFileSystem, name)

        def call(self: OsFileSystem, *arguments: str) -> object:
            nonlocal calls
            calls += 1
            if calls > limit:
                raise Stopped
            return real(self, *arguments)

        monkeypatch.setattr(OsFileSystem, name, call)

    for name in ("rename", "remove", "sync_directory", "make_directory"):
        counted(name)
    stops = 0
    while True:
        calls, limit = 0, limit + 1
        try:
            convert(str(former / "table"))
            break
        except Stopped:
            stops += 1
    calls, limit = 0, 10**9
    assert stops > 5
    assert_converted(former)


def test_what_is_no_former_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no table of ottla's former format"):
        convert(str(tmp_path))


def test_a_table_that_is_converted_has_nothing_to_convert(former: Path) -> None:
    convert(str(former / "table"))
    with pytest.raises(UserError, match="has the present format; there is nothing to convert"):
        convert(str(former / "table"))
