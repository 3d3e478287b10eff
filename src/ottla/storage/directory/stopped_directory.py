"""A log directory that is stopped, whose metadata log a command changes.

While it is open, the directory is not marked as stopped in order, so that a crash is noticed. Its
other logs are not opened.
"""

from types import TracebackType

from ottla.base.files import FileSystem, join
from ottla.base.ids import ZERO_UUID
from ottla.config.topic import TopicConfig
from ottla.storage.directory.log_checkpoints import LogCheckpoints
from ottla.storage.directory.log_loader import LogLoader
from ottla.storage.directory.open_options import OpenOptions
from ottla.storage.files.clean_shutdown import (
    NO_BROKER_EPOCH,
    remove_clean_shutdown,
    write_clean_shutdown,
)
from ottla.storage.files.directory_health import DirectoryHealth
from ottla.storage.files.filenames import CLEAN_SHUTDOWN
from ottla.storage.files.meta_properties import MetaProperties
from ottla.storage.log.partition_log import PartitionLog


class StoppedDirectory:
    """A context manager, with the part of `LogDirectory` that a metadata log needs; the caller has
    the directory's lock.
    """

    def __init__(
        self, path: str, file_system: FileSystem, properties: MetaProperties, now_ms: int
    ) -> None:
        self.path = path
        self.health = DirectoryHealth(path)
        self.directory_id = properties.directory_id
        options = OpenOptions(
            now_ms=now_ms,
            node_id=properties.node_id or 0,
            cluster_id=properties.cluster_id or "",
            new_id=lambda: ZERO_UUID,
            random_below=lambda _: 0,
            topic_config=lambda _: TopicConfig(),
        )
        self._file_system = file_system
        self._mark = join(path, CLEAN_SHUTDOWN)
        self._loader = LogLoader(
            file_system,
            self.health,
            LogCheckpoints(file_system, self.health, {}, {}),
            options,
        )
        self._log: PartitionLog | None = None

    def __enter__(self) -> "StoppedDirectory":
        remove_clean_shutdown(self._file_system, self._mark)
        return self

    def open_metadata_log(self, config: TopicConfig) -> PartitionLog:
        """Raises `OSError`."""
        if self._log is None:
            self._log = self._loader.open_metadata_log(config, was_clean_stop=True, written=None)
        return self._log

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._log is not None:
            if error is not None:
                self._log.maintenance.abandon()
                return
            self._log.maintenance.close()
        if error is None:
            write_clean_shutdown(self._file_system, self._mark, NO_BROKER_EPOCH)
