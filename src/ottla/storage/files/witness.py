"""What is known of a partition's log that its own files could not tell, were a bit of them flipped.

The topic's id, of which Kafka's file is the only place; the partition, which only the directory's
name tells; and the offset from which on every batch begins where the one before it ends: no
checksum covers a batch's base offset, and of the very last batch no neighbour tells where it
belongs. It stands in a file of its own beside Kafka's.

Format page: docs/format/ottla-witness.md. Kafka removes what ends with `.deleted` whenever it loads
a log: so a witness that is there also says that Kafka has not changed the log since. A crash leaves
the old file or the new; a power failure may also leave none, or one that does not count.
"""

from dataclasses import dataclass, replace

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, join, remove_if_present, replace_file
from ottla.base.ids import Uuid, parse_uuid, uuid_text
from ottla.base.partitions import TopicPartition
from ottla.storage.files.checksummed import read_checksummed, with_checksum
from ottla.storage.files.filenames import WITNESS

VERSION = 2
VERSION_WITHOUT_ABORTS = 1
VERSION_WITHOUT_PARTITION = 0
UNKNOWN = "-"
ABORTS_ARE_INDEXED = "aborts indexed"

LINE_COUNTS = {str(VERSION_WITHOUT_PARTITION): 4, str(VERSION_WITHOUT_ABORTS): 5, str(VERSION): 6}
"""By version, with the empty one at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """`None` where nothing is known: of a topic without an id, of a log that may have gaps.

    `partition` is `None` in the files of an earlier version. `aborts_are_indexed` says that the
    transaction indexes were complete once, and have had copies since (`abort_check`).
    """

    topic_id: Uuid | None
    gapless_from: int | None
    partition: TopicPartition | None = None
    aborts_are_indexed: bool = False


class LogWitness:
    """The witness of an open log, which speaks up before what it says is no more so."""

    __slots__ = ("_directory", "_file_system", "known")

    def __init__(
        self, file_system: FileSystem, directory: str, found: Witness | None, loaded: Witness
    ) -> None:
        """`found` is what the file says, `loaded` what is so of the log; raises `OSError`.

        An older offset without gaps is as good, and says more.
        """
        self._file_system = file_system
        self._directory = directory
        if found is not None:
            offsets = (found.gapless_from, loaded.gapless_from)
            loaded = Witness(
                topic_id=loaded.topic_id or found.topic_id,
                gapless_from=min((one for one in offsets if one is not None), default=None),
                partition=loaded.partition,
                aborts_are_indexed=loaded.aborts_are_indexed or found.aborts_are_indexed,
            )
        self.known = loaded
        if found != loaded:
            # What a power failure may leave of it instead says less, and nothing that is wrong.
            self._write(durably=False)

    def leave_gaps(self) -> None:
        """There may be gaps from now on, until the log is loaded again."""
        if self.known.gapless_from is not None:
            self.known = replace(self.known, gapless_from=None)
            self._write(durably=True)

    def indexed_aborts(self) -> None:
        """The transaction indexes name every abort."""
        if not self.known.aborts_are_indexed:
            self.known = replace(self.known, aborts_are_indexed=True)
            # A power failure has them looked at again.
            self._write(durably=False)

    def went_back(self, log_end_offset: int) -> None:
        """The log was cut, and goes on at an offset."""
        known = self.known.gapless_from
        if known is not None and log_end_offset < known:
            self.known = replace(self.known, gapless_from=log_end_offset)
            self._write(durably=False)

    def renamed(self, directory: str) -> None:
        """Takes note that the log's directory was renamed."""
        self._directory = directory

    def _write(self, *, durably: bool) -> None:
        path = join(self._directory, WITNESS)
        replace_file(self._file_system, path, witness_text(self.known), durably=durably)


def read_witness(file_system: FileSystem, directory: str) -> Witness | None:
    """What the file of a partition's directory says; `None` without one that is whole."""
    return read_checksummed(file_system, join(directory, WITNESS), parse_witness)


def dismiss_witness(file_system: FileSystem, directory: str) -> None:
    """Removes it for good, before the log is changed by who does not keep it."""
    remove_if_present(file_system, join(directory, WITNESS))
    file_system.sync_directory(directory)


def witness_text(witness: Witness) -> bytes:
    topic_id = UNKNOWN if witness.topic_id is None else uuid_text(witness.topic_id)
    gapless_from = UNKNOWN if witness.gapless_from is None else str(witness.gapless_from)
    lines = [str(VERSION_WITHOUT_PARTITION), topic_id, gapless_from]
    if witness.partition is not None:
        topic, index = witness.partition
        aborts = ABORTS_ARE_INDEXED if witness.aborts_are_indexed else UNKNOWN
        lines = [str(VERSION), *lines[1:], f"{topic} {index}", aborts]
    return with_checksum("".join(f"{line}\n" for line in lines).encode())


def parse_witness(path: str, content: bytes) -> Witness:
    """What the checksum covered; raises `CorruptionError`."""
    lines = content.decode("ascii", errors="replace").split("\n")
    if LINE_COUNTS.get(lines[0]) != len(lines):
        raise CorruptionError(path, 0, "its version is not known")
    try:
        return Witness(
            topic_id=None if lines[1] == UNKNOWN else parse_uuid(lines[1]),
            gapless_from=None if lines[2] == UNKNOWN else int(lines[2]),
            partition=_parse_partition(lines[3]) if len(lines) > 4 else None,
            aborts_are_indexed=lines[4:5] == [ABORTS_ARE_INDEXED],
        )
    except ValueError as error:
        raise CorruptionError(path, 0, str(error)) from error


def _parse_partition(line: str) -> TopicPartition:
    topic, _, index = line.rpartition(" ")
    return TopicPartition(topic, int(index))
