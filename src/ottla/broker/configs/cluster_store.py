"""The state of the cluster on the disks: changed in every log directory, or refused.

Kafka's counterpart: the records `ConfigRecord` and `ClientQuotaRecord` of its metadata log.
"""

import dataclasses
from collections.abc import Sequence

from ottla.base.errors import CorruptionError, UserError
from ottla.base.files import FileSystem
from ottla.broker.configs.cluster_file import (
    ClusterState,
    newest,
    read_cluster_file,
    write_cluster_file,
)
from ottla.storage.directory.log_directories import LogDirectories


def read_cluster_state(paths: Sequence[str], file_system: FileSystem) -> ClusterState:
    """The newest state that a directory has; raises `UserError` naming a file that is damaged."""
    try:
        return newest(read_cluster_file(file_system, path) for path in paths)
    except CorruptionError as error:
        raise UserError(f"{error}; restore the file, or move it away") from error


class ClusterStore:
    """`state` is what is on the disks."""

    def __init__(
        self, state: ClusterState, directories: LogDirectories, file_system: FileSystem
    ) -> None:
        self.state = state
        self._revision = state.revision
        self._directories = directories
        self._file_system = file_system

    def replace(self, state: ClusterState) -> None:
        """Writes a new state; raises `StorageError` and then keeps the old one.

        The next one is newer than both, whichever of them a failing disk has kept.
        """
        self._revision += 1
        new = dataclasses.replace(state, revision=self._revision)
        self._directories.check_any_online()
        self._directories.write_in_each(
            lambda path: write_cluster_file(self._file_system, path, new)
        )
        self.state = new
