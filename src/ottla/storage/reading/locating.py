"""In which of a broker's log directories each partition is, for readers who change nothing.

One that is lost is looked for where a checkpoint names it. Kafka has no counterpart.
"""

from collections.abc import Callable, Collection

from ottla.base.errors import UserError
from ottla.storage.reading.read_only_directory import ReadOnlyLogDirectory


def anything(topic: str, partition: int) -> bool:
    return True


def locate(
    directories: Collection[ReadOnlyLogDirectory], takes: Callable[[str, int], bool] = anything
) -> dict[str, dict[int, ReadOnlyLogDirectory]]:
    """Of each topic the partitions wanted, and in which of a broker's directories each is now.

    Raises `UserError` for one that is in two, as none of a running broker's is.
    """
    found: dict[str, dict[int, ReadOnlyLogDirectory]] = {}
    known: set[str] = set()
    for directory in directories:
        for topic, partitions in directory.topics().items():
            known.add(topic)
            for partition in partitions:
                if takes(topic, partition):
                    here = found.setdefault(topic, {})
                    here[partition] = _only(topic, partition, here.get(partition), directory)
    for directory in directories:
        for topic in sorted(found.keys() | directory.lost_topics(known)):
            # One that is lost is looked for where it was, which says so.
            for partition in directory.lost_partitions(topic):
                if takes(topic, partition):
                    found.setdefault(topic, {}).setdefault(partition, directory)
    return found


def locate_partition(
    directories: Collection[ReadOnlyLogDirectory], topic: str, partition: int
) -> ReadOnlyLogDirectory | None:
    """As `locate`, of one partition; `None` when it is in none, and was in none."""
    found: ReadOnlyLogDirectory | None = None
    for directory in directories:
        if directory.holds(topic, partition):
            found = _only(topic, partition, found, directory)
    if found is None:
        was_in = (one for one in directories if partition in one.lost_partitions(topic))
        return next(was_in, None)
    return found


def _only(
    topic: str,
    partition: int,
    other: ReadOnlyLogDirectory | None,
    directory: ReadOnlyLogDirectory,
) -> ReadOnlyLogDirectory:
    if other is None:
        return directory
    raise UserError(
        f"{topic}-{partition} is in {other.path} and in {directory.path}; "
        f"name directories of one broker"
    )
