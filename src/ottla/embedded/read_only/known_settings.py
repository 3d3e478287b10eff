"""Refuses or warns if settings of directories that another Kafka wrote are not known."""

import logging
from collections.abc import Iterable, Iterator

from ottla.base.errors import RefusalError
from ottla.diagnosis.directories import Directories
from ottla.embedded.read_only.topics import ReadOnlyTopic

logger = logging.getLogger(__name__)


def check_known(directories: Directories, what: str) -> None:
    """Raises `RefusalError` where `what`, which is of no topic, is in a metadata log that cannot be
    read; logs a warning where the cluster that wrote the directories has it elsewhere."""
    found = directories.found
    if found.unread is not None:
        raise RefusalError(_unread(directories, what))
    if not found.is_log_read and found.reason in directories.unknown.values():
        logger.warning("%s", _unknown(directories, what, found.reason))


def mark_unknown(directories: Directories, topics: Iterable[ReadOnlyTopic]) -> Iterator[str]:
    """Marks topics whose settings cannot be read; yields a line for each other reason why those of
    some are not known."""
    unknown = directories.unknown
    names: dict[str, list[str]] = {}
    for topic in topics:
        if topic.name not in unknown:
            continue
        if directories.found.unread is not None:
            topic.unread = _unread(directories, "settings of topics")
        else:
            names.setdefault(unknown[topic.name], []).append(topic.name)
    for reason, some in sorted(names.items()):
        what = f"settings of topic {some[0]}" if len(some) == 1 else "settings of topics"
        yield _unknown(directories, what, reason)


def _unread(directories: Directories, what: str) -> str:
    return (
        f"{what} are not known, since {directories.found.unread}; restore the log's files, or "
        f"run ottla adopt {_paths(directories)}, after which what is before the damage counts"
    )


def _unknown(directories: Directories, what: str, reason: str) -> str:
    return (
        f"{what} are not known, since {reason}; what is not set here is shown with its default: "
        f"run ottla adopt {_paths(directories)}"
    )


def _paths(directories: Directories) -> str:
    return " ".join(one.path for one in directories.opened)
