"""Refuses or warns if settings of directories that another Kafka wrote are not known."""

import logging
from collections.abc import Iterable, Sequence

from ottla.base.errors import RefusalError
from ottla.diagnosis.directories import Directories, read_directories

logger = logging.getLogger(__name__)


def read_known(paths: Sequence[str], what: str) -> Directories:
    """Opens directories for reading `what` (`check_known`)."""
    directories = read_directories(paths)
    check_known(directories, what)
    return directories


def check_known(directories: Directories, what: str) -> None:
    """Raises `RefusalError` where `what`, which is of no topic, is in a metadata log that cannot be
    read; logs a warning where the cluster that wrote the directories has it elsewhere."""
    _check_read(directories, what)
    found = directories.found
    if not found.is_log_read and found.reason in directories.unknown.values():
        _warn(directories, what, found.reason)


def check_topic_known(directories: Directories, topic: str) -> None:
    """The same for a topic's settings."""
    if topic in directories.unknown:
        what = f"settings of topic {topic}"
        _check_read(directories, what)
        _warn(directories, what, directories.unknown[topic])


def warn_of_unknown(directories: Directories, topics: Iterable[str]) -> None:
    """Logs a warning for each reason why the settings of one of the topics are not known."""
    unknown = directories.unknown
    for reason in sorted({unknown[topic] for topic in topics if topic in unknown}):
        _warn(directories, "settings of topics", reason)


def _check_read(directories: Directories, what: str) -> None:
    if directories.found.unread is not None:
        raise RefusalError(
            f"{what} are not known, since {directories.found.unread}; restore the log's files, or "
            f"run ottla adopt {_paths(directories)}, after which what is before the damage counts"
        )


def _warn(directories: Directories, what: str, reason: str) -> None:
    logger.warning(
        "%s are not known, since %s; what is not set here is shown with its default: run "
        "ottla adopt %s",
        what,
        reason,
        _paths(directories),
    )


def _paths(directories: Directories) -> str:
    return " ".join(one.path for one in directories.opened)
