"""Histories in files."""

from pathlib import Path

import pytest

from ottla.testing.history import (
    Assign,
    CommitOffsets,
    HistoryWriter,
    LogEnd,
    Operation,
    Outcome,
    Poll,
    Read,
    Send,
    UnusableHistoryError,
    read_history,
)

OPERATIONS: list[Operation] = [
    Send(
        process="p1", began=1, ended=2, partition="a-0", value="x", outcome=Outcome.OK, offset=0,
        transaction="t", source=("b-0", 7),
    ),
    Poll(
        process="c1", began=3, ended=4, records=(Read("a-0", 0, "x"),), is_committed=True,
        positions={"a-0": 2},
    ),
    Assign(process="c1", began=5, ended=6, positions={"a-0": None, "b-0": 3}, group="g"),
    CommitOffsets(process="c1", began=7, group="g", offsets={"a-0": 2}),
    LogEnd(process="admin", began=8, ended=9, partition="a-0", offset=1),
]  # fmt: skip


def write(path: Path, *operations: Operation) -> Path:
    with HistoryWriter(path) as writer:
        for one in operations:
            writer.write(one)
    return path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    files = [write(tmp_path / "1", *OPERATIONS[2:]), write(tmp_path / "2", *OPERATIONS[:2])]
    assert read_history(files) == OPERATIONS


def test_the_last_line_of_an_operation_counts(tmp_path: Path) -> None:
    begun = Send(process="p1", began=1, partition="a-0", value="x")
    done = Send(process="p1", began=1, ended=2, partition="a-0", value="x", outcome=Outcome.FAIL)
    assert read_history([write(tmp_path / "1", begun, done)]) == [done]


def test_a_torn_last_line_is_skipped(tmp_path: Path) -> None:
    path = write(tmp_path / "1", *OPERATIONS)
    path.write_bytes(path.read_bytes()[:-3])
    assert read_history([path]) == OPERATIONS[:-1]


@pytest.mark.parametrize(
    "line", ["{", "[]", "{}", '{"type": "Sent"}', '{"type": "Crash", "offset": 1}', "\N{SNOWMAN}"]
)
def test_a_line_that_is_no_operation_is_named(tmp_path: Path, line: str) -> None:
    path = write(tmp_path / "1", OPERATIONS[0])
    path.write_bytes(path.read_bytes() + line.encode() + b"\n")
    with pytest.raises(UnusableHistoryError, match="line 2: not an operation"):
        read_history([path])
