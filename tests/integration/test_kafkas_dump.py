"""Kafka's `DumpLogSegments` finds nothing to say of our indexes: running, stopped, killed."""

import shutil
from pathlib import Path

import pytest

from ottla.base.files import OsFileSystem
from ottla.record.builder import RecordBatchBuilder
from tests.crash.original import SETTINGS, Stop, build
from tests.support.brokers import NOW_MS, open_broker
from tests.support.kafkas_dump import Dump

FEW = 100


def dumped(directory: Path, *, is_stopped: bool = False) -> Dump:
    dump = Dump()
    for partition in directory.iterdir():
        if partition.is_dir():
            dump.look(partition, is_stopped=is_stopped)
    return dump


@pytest.mark.slow
@pytest.mark.parametrize("stop", Stop)
def test_kafkas_dump_finds_nothing_in_a_directory_that_was_left(stop: Stop, tmp_path: Path) -> None:
    original = build(tmp_path / "original", stop)
    dump = dumped(original.path, is_stopped=stop is Stop.CLEAN)
    assert dump.complaints == []
    assert dump.entry_count > FEW


@pytest.mark.slow
@pytest.mark.parametrize("stop", Stop)
def test_kafkas_dump_finds_nothing_beside_a_running_broker_or_after_it(
    stop: Stop, tmp_path: Path
) -> None:
    original = build(tmp_path / "original", stop)
    copy = tmp_path / "data"
    shutil.copytree(original.path, copy)
    settings = {name.replace(".", "_"): value for name, value in SETTINGS.items()}
    broker = open_broker(OsFileSystem(), str(copy), **settings)
    for number in range(30):
        builder = RecordBatchBuilder()
        builder.append(b"k", b"v" * (number % 90), NOW_MS + 10_000 + (number * 7) % 20)
        partition = broker.topics.partition("plain", 0)
        broker.appends.append(partition, bytearray(builder.build()), now_ms=NOW_MS)
        broker.appends.write_out()
        assert dumped(copy).complaints == []
    broker.close()
    assert dumped(copy, is_stopped=True).complaints == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", [".index", ".timeindex", ".txnindex"])
def test_the_dump_finds_a_change_in_each_kind_of_index(kind: str, tmp_path: Path) -> None:
    original = build(tmp_path / "original", Stop.CLEAN)
    paths = sorted(original.path.rglob(f"{'[0-9]' * 20}{kind}"))
    path = next(one for one in paths if one.stat().st_size)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    content[0] |= 64
    path.write_bytes(content)
    dump = dumped(original.path, is_stopped=True)
    assert {one.split(": ")[0] for one in dump.complaints} == {f"{path.parent.name}/{path.name}"}
