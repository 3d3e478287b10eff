"""Commands on a disk that takes no more: one line, nothing half left, and a sound directory.

The disk is one whose files have a limit (`ulimit -f`), which needs no rights; where a small file
system can be mounted, a full one too.
"""

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import ottla
from ottla.base.files import OsFileSystem
from ottla.storage.diagnosis.directory_check import check
from tests.integration.cli.support import ENVIRONMENT
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.slow

RECORDS = 3000
FITS = 400_000
"""Bytes, of some three million."""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory `data`, and its records in a file of lines and of Parquet."""
    pytest.importorskip("pyarrow")
    folder = tmp_path_factory.mktemp("source")
    values = [os.urandom(500).hex().encode() for _ in range(RECORDS)]
    with ottla.open(folder / "data") as log:
        log.create_topic("orders")
        log.append_many("orders", values)
    (folder / "lines.txt").write_bytes(b"".join(b"%b\n" % one for one in values))
    done = run(folder, "export", "data", "orders", "-o", "all.parquet")
    assert done.returncode == 0, done.stderr
    return folder


@contextmanager
def limited_files(path: Path) -> Iterator[Callable[[], None]]:
    path.mkdir(exist_ok=True)
    yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (FITS, FITS))


@contextmanager
def small_disk(path: Path) -> Iterator[Callable[[], None]]:
    path.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={2 * FITS}", "tmpfs", str(path)]
    if sys.platform != "linux" or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield lambda: None
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


Disk = tuple[Path, Callable[[], None]]


@pytest.fixture(params=[limited_files, small_disk], ids=["limit", "disk"])
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Disk]:
    """A folder that takes little, and what sets a limit in a command's process."""
    with request.param(tmp_path / "small") as set_limit:
        yield tmp_path / "small", set_limit


def run(
    folder: Path, *words: str | Path, set_limit: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ottla", *map(str, words)],
        capture_output=True,
        text=True,
        # Python would keep modules that were cut off.
        env={**ENVIRONMENT, "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        timeout=PATIENCE_S,
        preexec_fn=set_limit,
        check=False,
    )


def assert_said(done: subprocess.CompletedProcess[str], place: Path) -> None:
    """In one line, with the place."""
    *notes, line = done.stderr.splitlines()
    assert done.returncode in (1, 2), done.stderr
    assert line.startswith("ottla: "), done.stderr
    assert str(place) in line
    assert "Traceback" not in done.stderr
    assert all("damaged bytes" in one for one in notes), done.stderr


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl", "arrow", "duckdb"])
def test_export_leaves_no_file(source: Path, disk: Disk, suffix: str) -> None:
    if suffix == "duckdb":
        pytest.importorskip("duckdb")
    folder, set_limit = disk
    output = folder / f"orders.{suffix}"
    done = run(source, "export", "data", "orders", "-o", output, set_limit=set_limit)
    assert_said(done, output)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "words", ["import DATA orders all.parquet", "produce DATA orders lines.txt"]
)
def test_what_writes_into_a_directory_leaves_it_sound(
    source: Path, tmp_path: Path, words: str
) -> None:
    """Not on a full tmpfs: to read where a file has a hole needs room there, and ends a process."""
    data = tmp_path / "data"
    with ottla.open(data) as log:
        log.create_topic("orders", config={"segment.bytes": 1 << 20})
    named = [str(data) if word == "DATA" else word for word in words.split()]
    with limited_files(tmp_path) as set_limit:
        done = run(source, *named, set_limit=set_limit)
    assert_said(done, data)
    assert "delivery.timeout.ms" not in done.stderr
    # What is there reads from the first record on without a gap, and more may be written.
    with ottla.open(data, {"log.retention.check.interval.ms": 1 << 40}) as log:
        offsets = [one.offset for one in log.read("orders")]
        assert offsets == list(range(len(offsets)))
        assert len(offsets) < RECORDS
    assert check(OsFileSystem(), str(data), deep=True).findings == []


def test_load_leaves_a_table_as_it_was(source: Path, disk: Disk) -> None:
    pytest.importorskip("deltalake")
    folder, set_limit = disk
    table = folder / "table"
    words = ("load", "data", "orders", "--into", table, "--engine", "local")
    done = run(source, *words, set_limit=set_limit)
    assert_said(done, table)
    read = run(source, "table", "files", table)
    assert (read.returncode, read.stdout) == (2, "")
    assert "holds no table" in read.stderr


def test_snapshot_create_leaves_none(source: Path, tmp_path: Path) -> None:
    def no_file_longer_than_100_bytes() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    with ottla.open(tmp_path / "data") as log:
        for number in range(20):
            log.create_topic(f"orders-{number}")
        log.append("orders-1", b"tea")
    done = run(
        source, "snapshot", "create", tmp_path / "data", set_limit=no_file_longer_than_100_bytes
    )
    assert_said(done, tmp_path / "data")
    listed = run(source, "snapshot", "list", tmp_path / "data")
    assert (listed.returncode, listed.stdout) == (0, "")
