"""Finds partitions in a broker's log directories, for readers that change nothing.

A lost partition is attributed to the directory whose checkpoint names it. Kafka has no counterpart.
"""

from collections.abc import Callable, Collection, Sequence

from ottla.base.errors import UserError
from ottla.storage.reading.read_only_directory import ReadOnlyLogDirectory


def anything(topic: str, partition: int) -> bool:
    return True


def locate(
    directories: Collection[ReadOnlyLogDirectory], takes: Callable[[str, int], bool] = anything
) -> dict[str, dict[int, ReadOnlyLogDirectory]]:
    """The log directory of each partition that `takes` accepts, by topic and partition.

    Raises `UserError` for a partition that is in two directories: a running broker has none.
    """
    return {
        topic: {
            partition: _only(topic, partition, holders) for partition, holders in partitions.items()
        }
        for topic, partitions in holders_of(directories, takes).items()
    }


def holders_of(
    directories: Collection[ReadOnlyLogDirectory], takes: Callable[[str, int], bool] = anything
) -> dict[str, dict[int, list[ReadOnlyLogDirectory]]]:
    """As `locate`, with all directories of each partition: they may belong to several brokers."""
    found: dict[str, dict[int, list[ReadOnlyLogDirectory]]] = {}
    known: set[str] = set()
    for directory in directories:
        for topic, partitions in directory.topics().items():
            known.add(topic)
            for partition in partitions:
                if takes(topic, partition):
                    found.setdefault(topic, {}).setdefault(partition, []).append(directory)
    for directory in directories:
        for topic in sorted(found.keys() | directory.lost_topics(known)):
            # The directory that had a lost partition raises `LostPartitionError` when it is read.
            for partition in directory.lost_partitions(topic):
                if takes(topic, partition):
                    found.setdefault(topic, {}).setdefault(partition, [directory])
    return found


def locate_partition(
    directories: Collection[ReadOnlyLogDirectory], topic: str, partition: int
) -> ReadOnlyLogDirectory | None:
    """As `locate`, for one partition; `None` if no directory has it or names it as lost."""
    holders = [one for one in directories if one.holds(topic, partition)]
    if holders:
        return _only(topic, partition, holders)
    was_in = (one for one in directories if partition in one.lost_partitions(topic))
    return next(was_in, None)


def _only(
    topic: str, partition: int, holders: Sequence[ReadOnlyLogDirectory]
) -> ReadOnlyLogDirectory:
    if len(holders) == 1:
        return holders[0]
    raise UserError(
        f"{topic}-{partition} is in {holders[0].path} and in {holders[1].path}; "
        f"name directories of one broker"
    )
