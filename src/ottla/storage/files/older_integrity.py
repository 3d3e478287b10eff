"""The files that earlier versions of Ottla wrote instead of one integrity file.

`ottla-witness.deleted` had the facts about the log, `ottla-seams.deleted` its gap checkpoint, and
each segment could have a file with checksums of its batches and a copy of its transaction index.
The first start of this version imports their facts, and removes the files.
"""

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, join, remove_if_present
from ottla.base.ids import Uuid, parse_uuid
from ottla.base.partitions import TopicPartition
from ottla.base.patterns import lazy_pattern
from ottla.base.values import dataclass
from ottla.storage.files.checksummed import read_checksummed

WITNESS = "ottla-witness.deleted"
SEAMS = "ottla-seams.deleted"
_OF_SEGMENT = lazy_pattern(r"[0-9]{20}\.ottla-witness\.(deleted|cleaned)")

UNKNOWN = "-"
ABORTS_ARE_INDEXED = "aborts indexed"
LINE_COUNTS = {"0": 3, "1": 4, "2": 5}
"""By version; 0 has no partition, and only 2 a line for the transaction indexes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OlderIntegrity:
    """See `integrity.Integrity`."""

    topic_id: Uuid | None
    partition: TopicPartition | None
    gapless_from: int | None
    gap_checkpoint: int | None = None
    aborts_are_indexed: bool = False


def is_older_file(name: str) -> bool:
    return name in (WITNESS, SEAMS) or _OF_SEGMENT.fullmatch(name) is not None


def read_older(file_system: FileSystem, directory: str) -> OlderIntegrity | None:
    """Returns `None` if `ottla-witness.deleted` is missing or damaged; raises `OSError`."""
    return read_checksummed(
        file_system,
        join(directory, WITNESS),
        lambda path, content: _parse(file_system, directory, path, content),
    )


def remove_older(file_system: FileSystem, directory: str) -> None:
    """Removes them durably, if there are any."""
    older = [name for name in file_system.list(directory) if is_older_file(name)]
    for name in older:
        remove_if_present(file_system, join(directory, name))
    if older:
        file_system.sync_directory(directory)


def _parse(file_system: FileSystem, directory: str, path: str, content: bytes) -> OlderIntegrity:
    *lines, end = content.decode("ascii", errors="replace").split("\n")
    if end or not lines or LINE_COUNTS.get(lines[0]) != len(lines):
        raise CorruptionError(path, 0, "its version is not known")
    lines += [UNKNOWN] * (max(LINE_COUNTS.values()) - len(lines))
    _, topic_id, gapless_from, partition, aborts = lines
    topic, _, index = partition.rpartition(" ")
    # The copies of transaction indexes are not imported: the log is scanned once instead.
    has_copies = any(_OF_SEGMENT.fullmatch(one) for one in file_system.list(directory))
    try:
        return OlderIntegrity(
            topic_id=None if topic_id == UNKNOWN else parse_uuid(topic_id),
            partition=TopicPartition(topic, int(index)) if topic else None,
            gapless_from=None if gapless_from == UNKNOWN else int(gapless_from),
            gap_checkpoint=read_checksummed(file_system, join(directory, SEAMS), _parse_seams),
            aborts_are_indexed=aborts == ABORTS_ARE_INDEXED and not has_copies,
        )
    except ValueError as error:
        raise CorruptionError(path, 0, str(error)) from error


def _parse_seams(path: str, content: bytes) -> int:
    lines = content.split(b"\n")
    if len(lines) != 3 or lines[0] != b"0" or not lines[1].isdigit():
        raise CorruptionError(path, 0, "its version is not known")
    return int(lines[1])
