"""What becomes of every partition's directory at a start, decided once over all log directories.

A partition has one log. Beside it there may be the copy of a move that is under way, or what a
crash left of one: a move is decided when its source is renamed to `-delete` under the copy's own
id, so a copy without a log whose id such a directory bears is whole, and takes its place. What
belongs to no topic here is renamed to `-stray`, never removed. While a directory is away nobody
knows what lies in it, and what might be the last of its records stays as it is.

Kafka's counterparts: `LogManager.loadLog`, `LogManager.isStrayReplica`. There a crash between the
two renames of a move leaves two logs, and a start that a person must help.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ottla.base.errors import UserError
from ottla.base.files import parent_directory
from ottla.base.ids import ZERO_UUID, Uuid, uuid_text
from ottla.broker.topic_file import TopicEntry, TopicFile
from ottla.storage.filenames import DirectoryState
from ottla.storage.found_log import Fate, FoundLog

TopicPartition = tuple[str, int]

Arranged = list[tuple[FoundLog, Fate]]


def arrange(
    found: Sequence[Sequence[FoundLog]], known: TopicFile, *, is_complete: bool
) -> list[Arranged]:
    """The fate of everything found, by directory; `is_complete` when no directory is away.

    Raises `UserError` when two directories hold the log of one partition, or when it cannot be told
    which of two topics of one name is the present one.
    """
    found = [[_with_mended_id(one, known) for one in some] for some in found]
    everything = [one for some in found for one in some]
    arranging = _Arranging(everything, known, _present_ids(everything, known), is_complete)
    return [[(one, arranging.fate(one)) for one in some] for some in found]


def _with_mended_id(one: FoundLog, known: TopicFile) -> FoundLog:
    """With the topic's own id where one bit of it is wrong, as damage leaves it, not chance."""
    entry = known.entries.get(one.name.topic)
    if entry is None or one.topic_id is None:
        return one
    pairs = zip(uuid_text(one.topic_id), uuid_text(entry.topic_id), strict=True)
    if sum((ord(left) ^ ord(right)).bit_count() for left, right in pairs) != 1:
        return one
    return replace(one, topic_id=entry.topic_id)


def _present_ids(found: Sequence[FoundLog], known: TopicFile) -> dict[str, Uuid]:
    """The id of each topic that has a log.

    Where the topic file knows another id than all of the disks, another topic of that name was made
    since (by Kafka, say): the disks are right.
    """
    ids: dict[str, dict[Uuid, FoundLog]] = {}
    for one in found:
        if one.name.state is not DirectoryState.LIVE or one.topic_id is None:
            continue
        if one.topic_id not in known.gone:
            ids.setdefault(one.name.topic, {})[one.topic_id] = one
    present = {}
    for topic, logs in ids.items():
        entry = known.entries.get(topic)
        if entry is not None and entry.topic_id in logs:
            present[topic] = entry.topic_id
        elif len(logs) == 1:
            (present[topic],) = logs
        else:
            paths = " and ".join(sorted(one.path for one in logs.values()))
            raise UserError(
                f"{paths}: topic {topic} has two ids; move away the partition that does not "
                "belong to it"
            )
    return present


@dataclass(slots=True)
class _Arranging:
    found: Sequence[FoundLog]
    known: TopicFile
    present_ids: Mapping[str, Uuid]
    is_complete: bool
    logs: dict[TopicPartition, FoundLog] = field(default_factory=dict)
    copies: dict[TopicPartition, FoundLog] = field(default_factory=dict)
    retired_ids: set[str | None] = field(default_factory=set)

    def __post_init__(self) -> None:
        for one in self.found:
            if one.name.state is DirectoryState.DELETE:
                self.retired_ids.add(one.name.unique_id)
            elif one.name.state is DirectoryState.LIVE and not self._is_stray(one):
                self._take_log(one)
        for one in self.found:
            if one.name.state is DirectoryState.FUTURE and not self._is_stray(one):
                self._take_copy(one)

    def _take_log(self, one: FoundLog) -> None:
        other = self.logs.setdefault(_key(one), one)
        if other is not one:
            raise UserError(
                f"{other.path} and {one.path} are both the log of one partition; move the one away "
                "that is not wanted"
            )

    def _take_copy(self, one: FoundLog) -> None:
        """Of several copies the one that was decided for counts, otherwise the first."""
        key = _key(one)
        if key not in self.copies or one.name.unique_id in self.retired_ids:
            self.copies[key] = one

    def fate(self, one: FoundLog) -> Fate:
        match one.name.state:
            case DirectoryState.LIVE:
                return Fate.STRAY if self._is_stray(one) else Fate.LOAD
            case DirectoryState.FUTURE:
                return Fate.STRAY if self._is_stray(one) else self._fate_of_copy(one)
            case DirectoryState.DELETE:
                return self._fate_of_retired(one)
            case DirectoryState.STRAY:
                return Fate.KEEP

    def _fate_of_copy(self, one: FoundLog) -> Fate:
        log = self.logs.get(_key(one))
        entry = self.known.entries.get(one.name.topic)
        if self.copies[_key(one)] is not one or (entry is not None and entry.is_deleted):
            return Fate.REMOVE
        if log is not None:
            is_beside = _parent(log) == _parent(one)
            return Fate.REMOVE if is_beside else Fate.COPY
        if one.name.unique_id in self.retired_ids:
            return Fate.PROMOTE
        return Fate.STRAY if self.is_complete else Fate.KEEP

    def _fate_of_retired(self, one: FoundLog) -> Fate:
        """Removed, unless nothing else is left of a partition that should be there.

        Its name may be cut, so the partition is told by the topic's id.
        """
        entry = self._entry_of(one)
        if entry is None or entry.is_deleted or one.name.partition >= entry.partition_count:
            return Fate.REMOVE
        key = (entry.name, one.name.partition)
        copy = self.copies.get(key)
        is_promoted = copy is not None and copy.name.unique_id in self.retired_ids
        if key in self.logs or is_promoted:
            return Fate.REMOVE
        return Fate.STRAY if self.is_complete else Fate.KEEP

    def _entry_of(self, one: FoundLog) -> TopicEntry | None:
        topic_id = one.topic_id or ZERO_UUID
        if topic_id == ZERO_UUID:
            entry = self.known.entries.get(one.name.topic)
            return entry if entry is not None and entry.topic_id == ZERO_UUID else None
        entries = self.known.entries.values()
        return next((entry for entry in entries if entry.topic_id == topic_id), None)

    def _is_stray(self, one: FoundLog) -> bool:
        if one.topic_id is None:
            return False
        if one.topic_id in self.known.gone:
            return True
        present = self.present_ids.get(one.name.topic)
        entry = self.known.entries.get(one.name.topic)
        if present is None and entry is not None:
            present = entry.topic_id
        return present is not None and one.topic_id != present


def _key(one: FoundLog) -> TopicPartition:
    return (one.name.topic, one.name.partition)


def _parent(one: FoundLog) -> str:
    return parent_directory(one.path)
