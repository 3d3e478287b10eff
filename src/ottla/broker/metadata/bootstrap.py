"""The first records of a new cluster, which a directory was formatted with.

Its first leader writes them into the log. They are in `bootstrap.checkpoint`; newer Kafka versions
write them into the snapshot that ends at offset 0. Kafka's counterpart: `BootstrapDirectory`.
"""

from ottla.base.errors import CorruptionError, ProtocolError
from ottla.base.files import FileSystem, join, read_file
from ottla.broker.metadata.quorum_log import BOOTSTRAP_SNAPSHOT, snapshot_name
from ottla.metadata.image_changes import VersionedRecord
from ottla.metadata.log_check import check_log
from ottla.metadata.log_files import MetadataFile
from ottla.metadata.records import decode_record
from ottla.record.batch import iter_batches
from ottla.record.record import read_records
from ottla.storage.files.filenames import BOOTSTRAP_CHECKPOINT
from ottla.storage.files.metadata_files import metadata_folder


def read_bootstrap(file_system: FileSystem, directory: str) -> list[VersionedRecord]:
    """The records with their versions, none where neither file has any.

    Raises `CorruptionError` and `OSError`.
    """
    snapshot = join(metadata_folder(directory), snapshot_name(BOOTSTRAP_SNAPSHOT))
    for path in (join(directory, BOOTSTRAP_CHECKPOINT), snapshot):
        if file_system.status(path) is not None:
            records = _records(MetadataFile(path=path, content=read_file(file_system, path)))
            if records:
                return records
    return []


def _records(file: MetadataFile) -> list[VersionedRecord]:
    check_log([file], [], may_be_torn=False)
    try:
        return [
            decode_record(record.value or b"")
            for batch in iter_batches(file.content)
            if not batch.is_control
            for record in read_records(batch)
        ]
    except ProtocolError as error:
        raise CorruptionError(file.path, 0, str(error)) from error
