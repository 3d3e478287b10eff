"""Looks at intervals whether the files of the logs are still what was written.

A file that another program removes or cuts short stays open here, so that no read or write may meet
the damage before the next start. Kafka looks at none.
"""

from collections.abc import Callable, Iterator
from itertools import islice

from ottla.base.errors import CorruptionError, StorageError
from ottla.base.files import base_name
from ottla.base.partitions import TopicPartition
from ottla.broker.log_jobs.sliced_job import SlicedJob
from ottla.storage.directory.log_directories import LogDirectories
from ottla.storage.directory.log_directory import LogDirectory

FILES_PER_STEP = 256
"""Files that are looked at in one step, each with a system call of two microseconds."""


class FileChecks(SlicedJob):
    """`on_damage` is called once for each damaged file."""

    def __init__(
        self,
        directories: LogDirectories,
        on_damage: Callable[[TopicPartition, CorruptionError], None],
    ) -> None:
        super().__init__(directories)
        self._on_damage = on_damage
        self._told: set[str] = set()

    def _all_steps(self) -> Iterator[None]:
        left = FILES_PER_STEP
        for directory in self.directories.online:
            for key in list(directory.logs):
                for count in self._look_at(directory, key):
                    left -= count
                    if left <= 0:
                        left = FILES_PER_STEP
                        yield

    def _look_at(self, directory: LogDirectory, key: TopicPartition) -> Iterator[int]:
        """Looks at some files, and yields their number plus one, for the log."""
        base_offset = -1
        while (log := directory.logs.get(key)) is not None and not directory.is_offline:
            later = log.segments.iterate_from(base_offset)
            new = (one for one in later if one.base_offset > base_offset)
            some = list(islice(new, FILES_PER_STEP))
            if not some:
                return
            base_offset = some[-1].base_offset
            names = [base_name(one.log.path) for one in some]
            try:
                with log.health.guarding():
                    sizes = log.file_system.sizes(log.directory, names)
            except StorageError:
                return  # logged where the directory went offline
            for segment, size in zip(some, sizes, strict=True):
                if size is None or size < segment.log.written_size:
                    self._tell(key, log.reader.shortened(segment.log.path))
            yield len(some) + 1

    def _tell(self, key: TopicPartition, damage: CorruptionError | None) -> None:
        if damage is not None and damage.path not in self._told:
            self._told.add(damage.path)
            self._on_damage(key, damage)
