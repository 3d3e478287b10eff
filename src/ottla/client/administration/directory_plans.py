"""Plans for moving partitions between the log directories of a broker (KIP-113)."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from os.path import abspath

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import UserError
from ottla.base.partitions import TopicPartition
from ottla.base.texts import size_text
from ottla.base.values import dataclass
from ottla.client.administration.log_directories import LogDirectoryDescription, MovingReplica


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryMove:
    """A partition's log directory on a broker before and after; `size` is that of its log."""

    broker: int
    place: TopicPartition
    before: str
    after: str
    size: int

    def is_done_in(self, directories: Iterable[LogDirectoryDescription]) -> bool:
        """Whether the broker has put the partition into its new directory."""
        return any(
            (one.broker, one.path) == (self.broker, self.after) and self.place in one.sizes
            for one in directories
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningMove:
    """A move that is under way, and the copy so far."""

    move: DirectoryMove
    copy: MovingReplica


def plan_moves(
    directories: Sequence[LogDirectoryDescription],
    wanted: Collection[TopicPartition] | None,
    targets: Sequence[str],
    source: str | None = None,
) -> list[DirectoryMove]:
    """Moves partitions (all with `None`) to the directories `targets` of each broker that has them,
    or only those in the directory `source`.

    Partitions that are in one of `targets`, or on the way there, stay; the others are spread, the
    largest first, each to the directory with the fewest bytes. Raises `UserError` if a broker has
    no such directory, or no space in it.
    """
    moves: list[DirectoryMove] = []
    if source is not None and not any(is_path_of(one, source) for one in directories):
        raise _unknown("--from", source, directories)
    for broker, group in groupby(directories, lambda one: one.broker):
        own = list(group)
        found = [
            DirectoryMove(broker=broker, place=place, before=one.path, after="", size=size)
            for one in own
            if source is None or is_path_of(one, source)
            for place, size in one.sizes.items()
            if wanted is None or place in wanted
        ]
        if found:
            moves += _spread(found, [_target(own, path) for path in targets])
    return moves


def running_moves(directories: Iterable[LogDirectoryDescription]) -> list[RunningMove]:
    """The moves that are under way."""
    known = list(directories)
    homes = {
        (one.broker, place): (one.path, size) for one in known for place, size in one.sizes.items()
    }
    return [
        RunningMove(
            move=DirectoryMove(
                broker=one.broker, place=place, before=home[0], after=one.path, size=home[1]
            ),
            copy=copy,
        )
        for one in known
        for place, copy in one.moving.items()
        # A move that ended while the broker described its directories has no home any more.
        if (home := homes.get((one.broker, place))) is not None
    ]


def is_path_of(directory: LogDirectoryDescription, path: str) -> bool:
    """Whether a directory is meant; brokers and users may write its path with a slash at its end,
    and relative to where they are.
    """
    return abspath(directory.path) == abspath(path)


def _target(own: Sequence[LogDirectoryDescription], path: str) -> LogDirectoryDescription:
    for one in own:
        if is_path_of(one, path):
            if one.error is not ErrorCode.NONE:
                raise UserError(
                    f"--to {path}: this log directory of broker {one.broker} has failed"
                    f" ({one.error.name}); ottla doctor says why"
                )
            return one
    raise _unknown("--to", path, own)


def _unknown(option: str, path: str, known: Sequence[LogDirectoryDescription]) -> UserError:
    there = "; ".join(
        f"broker {broker} has {', '.join(one.path for one in group)}"
        for broker, group in groupby(known, lambda one: one.broker)
    )
    return UserError(
        f"{option} {path}: there is no such log directory: {there}; log.dirs names more of them"
    )


def _spread(
    found: Iterable[DirectoryMove], targets: Sequence[LogDirectoryDescription]
) -> list[DirectoryMove]:
    going = {place for one in targets for place in one.moving}
    there = {one.path for one in targets}
    loads = {
        one.path: sum(one.sizes.values()) + sum(copy.size for copy in one.moving.values())
        for one in targets
    }
    planned: Counter[str] = Counter()
    moves = []
    for one in sorted(found, key=lambda one: (-one.size, one.place)):
        if one.before in there or one.place in going:
            continue
        after = min(loads, key=lambda path: (loads[path], path))
        loads[after] += one.size
        planned[after] += one.size
        moves.append(
            DirectoryMove(
                broker=one.broker, place=one.place, before=one.before, after=after, size=one.size
            )
        )
    for target in targets:
        if 0 <= target.usable_size < planned[target.path]:
            raise UserError(
                f"{target.path}: {size_text(planned[target.path])} are to be moved there, and "
                f"{size_text(target.usable_size)} are free; move fewer partitions, or name another"
                " directory too with --to"
            )
    return sorted(moves, key=lambda one: one.place)
