"""Which files of a table are put together."""

from ottla.loading.compaction import plan_compaction
from ottla.tables.ledger_entries import DataFile


def files_of(*sizes: int) -> list[DataFile]:
    return [
        DataFile(
            path=f"data/load/{number}",
            size=size,
            row_count=10,
            partition=0,
            first_offset=10 * number,
            last_offset=10 * number + 9,
        )
        for number, size in enumerate(sizes)
    ]


def planned(files: list[DataFile], keys: dict[str, tuple[str, ...]] | None = None) -> list[str]:
    every = keys or {file.path: ("0",) for file in files}
    groups = plan_compaction(reversed(files), every, target_size=100)
    return ["".join(file.path[-1] for file in group) for group in groups]


def test_files_that_follow_each_other_go_together_up_to_the_target() -> None:
    assert planned(files_of(40, 40, 40, 40, 20)) == ["01", "234"]


def test_a_large_file_between_small_ones_stays_and_parts_them() -> None:
    assert planned(files_of(10, 10, 200, 10, 10)) == ["01", "34"]
    assert planned(files_of(10, 200, 10)) == []


def test_what_has_another_key_stays_apart() -> None:
    files = files_of(10, 10, 10, 10)
    keys = {file.path: (str(number % 2),) for number, file in enumerate(files)}
    assert planned(files, keys) == ["02", "13"]


def test_nothing_is_done_twice() -> None:
    assert planned(files_of(100, 100)) == []
    assert planned([]) == []
