"""Stores the state of an import from another Kafka in every log directory.

Kafka has no counterpart: a KRaft controller has one metadata log.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ottla.base.files import FileSystem
from ottla.broker.adoption.adoption_file import Adoption, write_adoption_file
from ottla.broker.adoption.found_settings import FoundSettings
from ottla.broker.adoption.metadata_log import metadata_file_sizes
from ottla.storage.directory.log_directories import LogDirectories

logger = logging.getLogger(__name__)

NAMED_AT_MOST = 5


class AdoptionStore:
    """`lines` are the messages to show at startup."""

    def __init__(
        self, found: FoundSettings, directories: LogDirectories, file_system: FileSystem
    ) -> None:
        self.lines: tuple[str, ...] = ()
        self.unread: str | None = found.unread
        """Why quotas, users, ACLs and settings of brokers and groups are unknown, if they are."""
        self._state: Adoption = found.adoption
        self._directories = directories
        self._file_system = file_system

    @property
    def unknown(self) -> Mapping[str, str]:
        """Maps topics with unknown settings, in which nothing is deleted, to the reasons."""
        return self._state.unknown

    def is_unknown(self, topic: str) -> bool:
        return topic in self._state.unknown

    def take_over(self, found: FoundSettings, unknown: Mapping[str, str]) -> None:
        """Records an import, and the topics with unknown settings; raises `StorageError`."""
        before, self._state = self._state, replace(self._state, unknown=dict(unknown))
        unread = unread_lines(found.unread, self._paths)
        self.lines = (*found.lines, *unknown_lines(self.unknown, self._paths), *unread)
        for line in self.lines:
            logger.warning("%s", line)
        if found.is_import or before != self._state:
            self._write()

    def hold(self, topic: str, reason: str) -> None:
        """Records a new topic with unknown settings; raises `StorageError`."""
        self._state = replace(self._state, unknown={**self.unknown, topic: reason})
        self._write()

    def forget(self, topic: str) -> None:
        """Removes a topic that was deleted or has known settings; raises `StorageError`."""
        if topic in self._state.unknown:
            left = {name: one for name, one in self.unknown.items() if name != topic}
            self._state = replace(self._state, unknown=left)
            self._write()

    def confirm(self, topics: Iterable[str]) -> None:
        """Records that a user has confirmed the topics' settings; raises `StorageError`.

        An unreadable metadata log is not read again until its files change.
        """
        confirmed = set(topics)
        left = {name: one for name, one in self.unknown.items() if name not in confirmed}
        sizes = [metadata_file_sizes(self._file_system, path) for path in self._paths]
        files = next((one for one in sizes if one is not None), self._state.metadata_files)
        self._state = replace(self._state, unknown=left, metadata_files=files)
        self.unread = None
        self._write()

    @property
    def _paths(self) -> list[str]:
        return [directory.path for directory in self._directories]

    def _write(self) -> None:
        self._state = replace(self._state, revision=self._state.revision + 1)
        self._directories.write_in_each(
            lambda path: write_adoption_file(self._file_system, path, self._state)
        )


def unknown_lines(unknown: Mapping[str, str], paths: Sequence[str]) -> list[str]:
    """Returns one line per reason, with the topics and the fix; none if all settings are known."""
    topics: dict[str, list[str]] = {}
    for name, reason in sorted(unknown.items()):
        topics.setdefault(reason, []).append(name)
    return [
        f"nothing of {_named(names)} is deleted or compacted, since {reason}: "
        f"stop the broker and run ottla adopt {' '.join(paths)}"
        for reason, names in topics.items()
    ]


def unread_lines(unread: str | None, paths: Sequence[str]) -> list[str]:
    """Returns the lines about the settings, other than topics', in an unreadable metadata log."""
    if unread is None:
        return []
    return [
        f"quotas, users, ACLs and settings of brokers and groups are not known, since {unread}; "
        f"those that are not set here have no effect: restore the log's files, or set them and run "
        f"ottla adopt {' '.join(paths)}"
    ]


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED_AT_MOST} more" if len(names) > NAMED_AT_MOST else ""
    return f"topic{'s' if len(names) > 1 else ''} {', '.join(names[:NAMED_AT_MOST])}{more}"
