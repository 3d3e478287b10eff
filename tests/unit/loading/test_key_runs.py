"""The last change of each key, in parts: what is kept, and how much of it is in memory at once."""

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ottla.tables.stores.store import open_store
from ottla.tables.upserts import key_runs
from ottla.tables.upserts.key_runs import KeyRuns

pa = pytest.importorskip("pyarrow")

Change = tuple[bytes, int]


def table_of(changes: Sequence[Change]) -> Any:
    keys, numbers = [key for key, _ in changes], [number for _, number in changes]
    return pa.table({"key": pa.array(keys, pa.binary()), "change": pa.array(numbers, pa.int64())})


def windows(path: Path, changes: Sequence[Change], keys_at_once: int) -> Iterator[list[Change]]:
    runs = KeyRuns(open_store(str(path)), "runs/run", keys_at_once)
    for first in range(0, len(changes), 7):
        runs.add(table_of(changes[first : first + 7]))
    for window in runs.windows():
        yield [(row["key"], row["change"]) for row in window.to_pylist()]


@pytest.mark.slow
@pytest.mark.parametrize("keys_at_once", [1, 2, 30, 1000])
@pytest.mark.parametrize("key_size", [1, 3, 5000])
def test_each_key_comes_once_in_order_with_its_highest_change(
    tmp_path: Path, keys_at_once: int, key_size: int
) -> None:
    chance = random.Random(keys_at_once)
    keys = [b"%0*d" % (key_size, chance.randrange(200)) for _ in range(400)]
    changes = list(zip(keys, chance.sample(range(10_000), 400), strict=True))
    found = [one for window in windows(tmp_path, changes, keys_at_once) for one in window]
    last: dict[bytes, int] = {}
    for key, number in changes:
        last[key] = max(number, last.get(key, -1))
    assert found == sorted(last.items())


def test_without_changes_there_is_nothing(tmp_path: Path) -> None:
    assert list(windows(tmp_path, [], 10)) == []


def test_few_keys_need_no_run_however_often_they_change(tmp_path: Path) -> None:
    changes = [(b"%d" % (number % 5), number) for number in range(1000)]
    (window,) = windows(tmp_path, changes, 20)
    assert dict(window) == {b"%d" % (number % 5): number for number in range(995, 1000)}
    assert not list(tmp_path.rglob("*.parquet"))


@pytest.mark.slow
@pytest.mark.parametrize("is_in_order", [True, False])
def test_what_is_folded_at_once_does_not_grow_with_the_keys(
    tmp_path: Path, is_in_order: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys in order make runs that follow each other; mixed ones, runs that all overlap."""
    numbers = list(range(5000))
    if not is_in_order:
        random.Random(1).shuffle(numbers)
    changes = [(b"%08d" % number, offset) for offset, number in enumerate(numbers)]
    sizes: list[int] = []
    fold = key_runs._folded

    def folded(tables: list[Any], *, keeps_all: bool) -> Any:
        sizes.append(sum(one.num_rows for one in tables))
        return fold(tables, keeps_all=keeps_all)

    monkeypatch.setattr(key_runs, "_folded", folded)
    found = list(windows(tmp_path, changes, 128))
    assert sum(len(window) for window in found) == 5000
    assert all(first[-1] < second[0] for first, second in pairwise(found))
    assert len(list(tmp_path.rglob("*.parquet"))) > 30
    # A window, and twice what is left of the 40 runs: two keys of each.
    assert max(sizes) < 128 + 7 + 3 * 40 * 2
