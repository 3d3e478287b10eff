"""Which log directory partitions are moved to: values, without brokers."""

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import UserError
from ottla.base.partitions import TopicPartition
from ottla.client.administration.directory_plans import plan_moves, running_moves
from ottla.client.administration.log_directories import LogDirectoryDescription, MovingReplica


def place(index: int) -> TopicPartition:
    return TopicPartition("t", index)


def directory(
    path: str,
    sizes: dict[int, int] | None = None,
    *,
    broker: int = 1,
    moving: dict[int, int] | None = None,
    usable: int = -1,
    error: ErrorCode = ErrorCode.NONE,
) -> LogDirectoryDescription:
    return LogDirectoryDescription(
        broker=broker,
        path=path,
        error=error,
        total_size=usable,
        usable_size=usable,
        sizes={place(index): size for index, size in (sizes or {}).items()},
        moving={
            place(index): MovingReplica(size=size, offset_lag=1)
            for index, size in (moving or {}).items()
        },
    )


def planned(
    *directories: LogDirectoryDescription,
    to: tuple[str, ...],
    wanted: set[int] | None = None,
    source: str | None = None,
) -> dict[tuple[int, int], str]:
    """The new directory by broker and partition."""
    places = None if wanted is None else {place(one) for one in wanted}
    moves = plan_moves(directories, places, to, source)
    return {(one.broker, one.place.partition): one.after for one in moves}


def test_partitions_are_spread_by_their_sizes_the_largest_first() -> None:
    full, *others = (
        directory("/a", {0: 60, 1: 50, 2: 30}),
        directory("/b", {3: 20}),
        directory("/c"),
    )
    assert planned(full, *others, to=("/b", "/c/")) == {(1, 0): "/c", (1, 1): "/b", (1, 2): "/c"}


def test_what_is_there_already_or_on_its_way_stays() -> None:
    places = directory("/a", {0: 1, 1: 1}), directory("/b", {2: 1}, moving={1: 0})
    assert planned(*places, to=("/b",)) == {(1, 0): "/b"}


def test_only_named_partitions_in_the_named_directory_are_moved() -> None:
    places = directory("/a", {0: 1, 1: 1}), directory("/b", {2: 1}), directory("/c")
    assert planned(*places, to=("/c",), wanted={1, 2}, source="/a") == {(1, 1): "/c"}


def test_each_broker_moves_its_own_replicas() -> None:
    one = directory("/a", {0: 1}), directory("/b")
    other = directory("/a", broker=2), directory("/b", {0: 1}, broker=2)
    third = directory("/x", broker=3)
    assert planned(*one, *other, third, to=("/b",)) == {(1, 0): "/b"}


@pytest.mark.parametrize(
    ("target", "source", "said"),
    [
        (directory("/b", usable=5), None, "/b: 6 B are to be moved there, and 5 B are free"),
        (
            directory("/b", error=ErrorCode.KAFKA_STORAGE_ERROR),
            None,
            "--to /b: this log directory of broker 1 has failed",
        ),
        (directory("/c"), None, "--to /b: there is no such log directory: broker 1 has /a, /c"),
        (directory("/b"), "/c", "--from /c: there is no such log directory: broker 1 has /a, /b"),
    ],
)
def test_a_move_that_cannot_succeed_is_refused(
    target: LogDirectoryDescription, source: str | None, said: str
) -> None:
    with pytest.raises(UserError, match=said):
        planned(directory("/a", {0: 6}), target, to=("/b",), source=source)


def test_a_move_under_way_has_where_it_comes_from_and_how_far_it_is() -> None:
    (one,) = running_moves([directory("/a", {0: 6, 1: 1}), directory("/b", moving={0: 2, 9: 1})])
    assert (one.move.place, one.move.before, one.move.after) == (place(0), "/a", "/b")
    assert (one.move.size, one.copy.size) == (6, 2)
