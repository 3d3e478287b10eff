"""Up to which offset a tier has logs, by the records in the log directories of a broker."""

from collections.abc import Collection

from ottla.config.topic import TopicConfig
from ottla.storage.reading.metadata_reader import RemoteLogMetadata, read_remote_log_metadata
from ottla.storage.reading.read_only_directory import ReadOnlyLogDirectory
from ottla.storage.reading.read_only_log import ReadOnlyLog
from ottla.storage.remote.lineage import highest_remote_offset


class TierEnds:
    """Reads `__remote_log_metadata` when it is first asked about a log with a tier."""

    def __init__(self, directories: Collection[ReadOnlyLogDirectory]) -> None:
        self._directories = directories
        self._metadata: RemoteLogMetadata | None = None

    def of(self, log: ReadOnlyLog, config: TopicConfig) -> int:
        """The last offset that the tier has of a log; -1 if none is known.

        Raises `CorruptionError` and `UserError`.
        """
        if not config.remote_storage_enable or log.topic_id is None:
            return -1
        if self._metadata is None:
            self._metadata = read_remote_log_metadata(self._directories)
        index = self._metadata.indexes.find(log.topic_id, log.partition)
        if index is None:
            return -1
        found = highest_remote_offset(
            index, log.leader_epochs.entries, log.log_start_offset, log.log_end_offset
        )
        return -1 if found is None else found.start_offset
