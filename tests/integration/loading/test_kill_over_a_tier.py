"""Loads of a log whose head lies in a remote tier, killed for real, and what comes after."""

from pathlib import Path

import pytest

from ottla.loading.job import LoadOptions
from ottla.tables.table import Table
from ottla.tables.writing.progress import Step
from tests.integration.loading.test_kill import killed_load
from tests.support.auditing import audited
from tests.support.local_loads import load
from tests.support.tiered import TieredPlace, uploaded

LAST = 1399


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> TieredPlace:
    root = tmp_path_factory.mktemp("tiered")
    uploads = [uploaded(1, 0, 499), uploaded(2, 500, 999)]
    found = TieredPlace(root, uploads, (1000, LAST))
    (root / "log").symlink_to(found.data)
    return found


@pytest.mark.parametrize(
    ("step", "task_count"), [(Step.WRITING, 3), (Step.SYNCED, 0), (Step.COMMITTED, 0)]
)
def test_a_load_killed_over_a_tier_is_seen_whole_or_not_at_all(
    tmp_path: Path, place: TieredPlace, step: Step, task_count: int
) -> None:
    table = str(tmp_path / "table")
    killed_load(place.data, table, step, task_count, str(place.tier))
    is_done = step is Step.COMMITTED
    assert Table(table).is_there() == is_done
    options = LoadOptions(tier=place.place)
    report = load(str(place.data), "orders", table, options=options)
    assert report.row_count == (0 if is_done else LAST + 1)
    found = audited(place.data.parent, table=table, tier=str(place.tier))
    assert (found.differences, found.rows) == ([], LAST + 1)
