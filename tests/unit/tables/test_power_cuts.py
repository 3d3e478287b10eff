"""Power cuts at any call of a commit: the table is as it was, or has the commit, for everybody."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from ottla.base.files import FileSystem
from ottla.tables.formats import delta
from ottla.tables.table import Table
from ottla.testing import FakeFileSystem, every_crash_point
from tests.support.shadowed import OnBoth, put_down
from tests.unit.tables.test_table import add_load, delta_files

pytest.importorskip("deltalake")
pytestmark = pytest.mark.slow


@pytest.mark.timeout(600)
@pytest.mark.parametrize("interval", [100, 2])
def test_whatever_a_power_cut_leaves_is_a_whole_table_for_the_next_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interval: int
) -> None:
    monkeypatch.setattr(delta, "CHECKPOINT_INTERVAL", interval)
    root = tmp_path / "tables" / "orders"
    root.mkdir(parents=True)

    def disk() -> FakeFileSystem:
        made = FakeFileSystem()
        for directory in [*reversed(root.parents), root]:
            if str(directory) != "/":
                made.make_directory(str(directory))
                made.sync_directory(str(directory.parent))
        return made

    def loads(file_system: FileSystem, acknowledged: list[Any]) -> None:
        both: Any = OnBoth(root, file_system)
        for attempt in (b"aaaa", b"bbbb", b"cccc"):
            acknowledged.append(add_load(Table(str(root), both), attempt))

    cuts = 0
    for number, point in enumerate(every_crash_point(loads, make_file_system=disk, seeds=1)):
        left = tmp_path / f"left-{number}"
        put_down(point.file_system, str(root), left)
        table = Table(str(left))
        last = add_load(table, b"dddd")
        paths = [file.path for one in table.entries() for file in one.files]
        assert paths[: len(point.acknowledged)] == point.acknowledged, point
        # The cut may have come after the commit, so one more load may be there.
        assert paths[-1] == last
        assert len(paths) - len(point.acknowledged) in (1, 2), point
        assert delta_files(table) == set(paths), point
        for path in paths:
            assert (left / path).read_bytes() == b"rows", point
        shutil.rmtree(left)
        cuts += 1
    assert cuts > 20
