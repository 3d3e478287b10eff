"""The topic file in each log directory, with the entries of all topics.

Format page: docs/format/ottla-topics.md. A crash leaves the old file or the new one.
"""

from collections.abc import Iterator
from functools import partial
from itertools import chain

from ottla.base.files import FileSystem, join, write_file
from ottla.base.ids import Uuid
from ottla.base.turns import OneAtATime, aside, in_a_turn, kept
from ottla.broker.topics.topics import Topics
from ottla.storage.directory.log_directories import LogDirectories
from ottla.storage.files.topic_file import (
    TOPIC_FILE_NAME,
    TopicEntry,
    topic_file_parts,
    write_topic_file,
)


class TopicFiles:
    """Writes `topics`, those in `under_way` as they will be, and the ids of those that are gone."""

    def __init__(
        self, topics: Topics, directories: LogDirectories, file_system: FileSystem
    ) -> None:
        self._topics = topics
        self._directories = directories
        self._file_system = file_system
        self.under_way: dict[str, TopicEntry] = {}
        """Topics that are being created or deleted while other requests have their turn."""
        self.gone: set[Uuid] = set()
        """The ids of deleted topics that may have partitions in offline directories."""
        self._writing = OneAtATime()
        self._writes_at_once = 0

    def write(self) -> None:
        """Writes all entries, in turns if a request changes them; raises `StorageError`.

        With thousands of topics the write takes 20 ms, and the sync as long.
        """
        if in_a_turn():
            with kept(), self._writing:
                self._write_in_turns()
            return
        write = partial(write_topic_file, self._file_system)
        entries = [*self._entries()]
        self._directories.write_in_each(lambda path: write(path, entries, self.gone))
        self._writes_at_once += 1

    def _write_in_turns(self) -> None:
        files, known = self._file_system, self._writes_at_once
        parts = list(topic_file_parts(self._entries(), frozenset(self.gone)))

        def prepare(path: str) -> None:
            aside(lambda: write_file(files, _prepared(path), parts))

        def finish(path: str) -> None:
            files.rename(_prepared(path), join(path, TOPIC_FILE_NAME))

        self._directories.write_in_each(prepare)
        if self._writes_at_once == known:  # Otherwise a later state includes it.
            self._directories.write_in_each(finish)
        self._directories.write_in_each(lambda path: aside(lambda: files.sync_directory(path)))

    def _entries(self) -> Iterator[TopicEntry]:
        """Returns the entries of all current topics, including those under way."""
        topics, under_way = [*self._topics], dict(self.under_way)
        return chain(
            (topic.entry() for topic in topics if topic.name not in under_way), under_way.values()
        )


def _prepared(directory: str) -> str:
    """Not the name that `write_topic_file` uses: its write may happen in between."""
    return join(directory, f"{TOPIC_FILE_NAME}.next.tmp")
