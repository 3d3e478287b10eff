"""The file `quorum-state` of a directory, which a node reads at its start and replaces durably.

Format page: docs/format/quorum-state.md; `quorum.election_state` has the content. Kafka's
counterpart: `FileQuorumStateStore`.
"""

from ottla.base.files import FileSystem, join, replace_file
from ottla.metadata.quorum_state import QuorumState
from ottla.quorum.election_state import ElectionState, election_in, encode_election_state
from ottla.quorum.voters import VoterSet
from ottla.storage.files.directory_health import DirectoryHealth
from ottla.storage.files.metadata_files import QUORUM_STATE, find_quorum_state, metadata_folder


class QuorumStateFile:
    """`health` is that of the log directory."""

    def __init__(self, file_system: FileSystem, health: DirectoryHealth) -> None:
        self._file_system = file_system
        self._health = health
        self.path = join(metadata_folder(health.directory), QUORUM_STATE)
        self.was_used = True
        """Whether the directory may have voted before, so that the file must not be missing."""

    def find(self) -> QuorumState | None:
        """What the file says; `None` if there is none. Raises `CorruptionError` and `OSError`."""
        return find_quorum_state(self._file_system, self._health.directory)

    def read(self) -> ElectionState | None:
        """What the file says; without one `ElectionState()` in a directory that was never used, and
        `None` where it is lost. Raises `CorruptionError` and `StorageError`.
        """
        with self._health.guarding():
            found = self.find()
        if found is not None:
            return election_in(found)
        return None if self.was_used else ElectionState()

    def write(self, state: ElectionState, kraft_version: int, voters: VoterSet) -> None:
        """Replaces the file, durably; raises `StorageError`."""
        with self._health.guarding(changes_files=True):
            content = encode_election_state(state, kraft_version, voters)
            replace_file(self._file_system, self.path, content)
