"""Kafka's own directories served by a broker: the wire gives the same rows as the files."""

from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

import ottla
from ottla.base.partitions import OffsetRange
from ottla.record.columns import COLUMNS
from ottla.sources.log_source import LogSource
from ottla.sources.opening import open_log, source_options
from ottla.sources.options import parse_options
from tests.golden.directories import CASES, copy_of

pytestmark = pytest.mark.slow

Row = dict[str, object]


def rows(log: LogSource) -> dict[str, list[Row]]:
    found = {}
    for one in log.partitions():
        wanted = OffsetRange(from_offset=one.start_offset, until_offset=one.end_offset)
        found[str(one.place)] = [
            row
            for split in log.splits({one.place: wanted})
            for batch in log.read(split, COLUMNS)
            for row in batch.to_pylist()
        ]
    return found


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize(
    "case", sorted({"old-formats", "txn", "basic-gzip", "basic-lz4", "basic-zstd"} & set(CASES))
)
def test_rows_over_the_wire_are_those_of_the_files(
    case: str, isolation: str, tmp_path: Path
) -> None:
    copy_of(case, tmp_path / "log")
    with ottla.open(tmp_path / "log") as log:
        address = log.listen("127.0.0.1:0").address
        options = {"subscribePattern": ".*", "isolation.level": isolation}
        wire, files = (
            rows(open_log(parse_options({**source_options(one), **options})))
            for one in (address, str(tmp_path / "log"))
        )
    assert sum(map(len, files.values())) > 0
    assert wire == files
