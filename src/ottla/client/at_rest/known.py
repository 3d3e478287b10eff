"""What nobody knows of directories that another Kafka wrote is not shown as if nothing were set."""

import logging
from collections.abc import Iterable, Sequence

from ottla.base.errors import RefusalError
from ottla.diagnosis.directories import Directories, read_directories

logger = logging.getLogger(__name__)


def read_known(paths: Sequence[str], what: str) -> Directories:
    """Opens directories for reading `what`, all of which must be known (`check_known`)."""
    directories = read_directories(paths)
    check_known(directories, what, directories.topics)
    return directories


def check_known(directories: Directories, what: str, topics: Iterable[str]) -> None:
    """Raises `RefusalError` where `what` is in a metadata log that cannot be read; logs a warning
    where it is elsewhere, since settings of one of the topics are."""
    if directories.found.unread is not None:
        raise RefusalError(
            f"{what} are not known, since {directories.found.unread}; restore the log's files, or "
            f"run ottla adopt {_paths(directories)}, after which only what is set here counts"
        )
    warn_of_unknown(directories, what, topics)


def warn_of_unknown(directories: Directories, what: str, topics: Iterable[str]) -> None:
    """Logs a warning for each reason why the settings of one of the topics are not known."""
    unknown = directories.unknown
    for reason in sorted({unknown[topic] for topic in topics if topic in unknown}):
        logger.warning(
            "%s are not known, since %s; what is not set here is shown with its default: run "
            "ottla adopt %s",
            what,
            reason,
            _paths(directories),
        )


def _paths(directories: Directories) -> str:
    return " ".join(one.path for one in directories.opened)
