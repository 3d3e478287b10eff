"""The startup plan: decides over all log directories what becomes of each partition directory.

A partition has one log. Beside it there may be the copy of an unfinished move, or what a crash left
of one. A move is decided when its source is renamed to `-delete` under the copy's id: so a copy
without a log, whose id such a directory has, is complete and becomes the log.

Directories without a topic are renamed to `-stray`, never removed. While a directory is offline its
contents are unknown, and anything that might be the last copy of its records stays unchanged.

A directory with another partition's name, or another topic's id, was put there by mistake. It
stays, and the partition is refused, since its records must not be served, and no others appended.
The same applies to a partition that a checkpoint names and no directory contains (`find_lost`).

Kafka's counterparts: `LogManager.loadLog`, `LogManager.isStrayReplica`. In Kafka a crash between
the two renames of a move leaves two logs, and the start needs manual help.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import field, replace

from ottla.base.errors import UserError
from ottla.base.files import parent_directory
from ottla.base.ids import ZERO_UUID, Uuid, uuid_text
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.metadata.image import TopicImage
from ottla.storage.directory.found_logs import FoundLog, StartupAction
from ottla.storage.files.filenames import PARTITION_METADATA, DirectoryState
from ottla.storage.files.known_topics import KnownTopics
from ottla.storage.files.ownership import wrong_owner
from ottla.storage.findings import Finding

DirectoryPlan = list[tuple[FoundLog, StartupAction]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartupPlan:
    """What a start does with each partition directory, and why partitions are refused."""

    directories: list[DirectoryPlan]
    refused: Mapping[TopicPartition, str]
    deleted: Set[TopicPartition] = frozenset()
    """Partitions of deleted topics, whose removal a start finishes."""


def plan_startup(
    found: Sequence[Sequence[FoundLog]],
    known: KnownTopics,
    *,
    is_complete: bool,
    is_replicated: bool = False,
    named: Sequence[Set[TopicPartition]] = (),
) -> StartupPlan:
    """Plans a start over all found directories; `is_complete` if no log directory is offline.

    `named` are the partitions that the checkpoints of each directory name: if the topic of one was
    deleted, a crash has interrupted that, or its directory was offline. A partition of a deleted
    topic that no checkpoint names was put there by a person, and is kept.

    If `is_replicated`, a controller decides which partitions of a topic this broker hosts. Raises
    `UserError` if two directories contain the log of one partition, or if it is unclear which of
    two topics of one name is the present one.
    """
    found = [[_with_repaired_id(one, known) for one in some] for some in found]
    deleted = {
        one.path
        for some, names in zip(found, named, strict=False)
        for one in some
        if one.topic_id in known.gone and one.key in names
    }
    everything = [one for some in found for one in some if one.path not in deleted]
    present_ids = _present_ids(everything, known)
    planner = _Planner(everything, known, present_ids, is_complete, is_replicated)
    directories = [
        [
            (one, StartupAction.REMOVE if one.path in deleted else planner.action(one))
            for one in some
        ]
        for some in found
    ]
    refused = {
        one.key: reason
        for one in everything
        if one.name.state is DirectoryState.LIVE
        and one.key not in planner.logs
        and (reason := planner.why_misplaced(one))
    }
    gone = {one.key for some in found for one in some if one.path in deleted}
    return StartupPlan(directories=directories, refused=refused, deleted=gone - refused.keys())


def find_lost(
    known: KnownTopics, checkpointed: Set[TopicPartition], held: Set[TopicPartition]
) -> set[TopicPartition]:
    """Returns the partitions that a checkpoint names and no directory contains.

    A checkpoint names a partition only after its creation, and no partition that is about to be
    created (`LogCheckpoints.forget`), so an interrupted creation is not among them.
    """
    return {key for key in checkpointed if key not in held and known.still_has(*key)}


def _with_repaired_id(one: FoundLog, known: KnownTopics) -> FoundLog:
    """Returns the log with the topic's own id if its id differs in one bit: that is damage."""
    entry = known.entries.get(one.name.topic)
    if entry is None or one.topic_id is None:
        return one
    pairs = zip(uuid_text(one.topic_id), uuid_text(entry.topic_id), strict=True)
    if sum((ord(left) ^ ord(right)).bit_count() for left, right in pairs) != 1:
        return one
    return replace(one, topic_id=entry.topic_id)


def _present_ids(found: Sequence[FoundLog], known: KnownTopics) -> dict[str, Uuid]:
    """Returns the id of each topic that has a log.

    If the metadata log has another id than all directories, another topic of that name was created
    since (by Kafka, say), and the directories' id counts.
    """
    ids: dict[str, dict[Uuid, FoundLog]] = {}
    for one in found:
        if one.name.state is not DirectoryState.LIVE or one.topic_id is None:
            continue
        if _wrong_owner(one, known) is None:
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


def _wrong_owner(one: FoundLog, known: KnownTopics) -> Finding | None:
    """The finding about the log of another partition or topic."""
    home = None if one.integrity is None else one.integrity.partition
    return wrong_owner(one.path, one.key, known, home=home, topic_id=one.topic_id)


@dataclass(slots=True)
class _Planner:
    found: Sequence[FoundLog]
    known: KnownTopics
    present_ids: Mapping[str, Uuid]
    is_complete: bool
    is_replicated: bool
    logs: dict[TopicPartition, FoundLog] = field(default_factory=dict)
    copies: dict[TopicPartition, FoundLog] = field(default_factory=dict)
    retired_ids: set[str | None] = field(default_factory=set)

    def __post_init__(self) -> None:
        for one in self.found:
            if one.name.state is DirectoryState.DELETE:
                self.retired_ids.add(one.name.unique_id)
            elif one.name.state is DirectoryState.LIVE and not self._is_foreign(one):
                self._take_log(one)
        for one in self.found:
            if one.name.state is DirectoryState.FUTURE and not self._is_foreign(one):
                self._take_copy(one)

    def _is_foreign(self, one: FoundLog) -> bool:
        is_of_another = one.obstacle is not None or _wrong_owner(one, self.known) is not None
        return is_of_another or self._is_stray(one)

    def _take_log(self, one: FoundLog) -> None:
        other = self.logs.setdefault(_key(one), one)
        if other is not one:
            raise UserError(
                f"{other.path} and {one.path} are both the log of one partition; move the one away "
                "that is not wanted"
            )

    def _take_copy(self, one: FoundLog) -> None:
        """Keeps the first of several copies, or the one for which a move was decided."""
        key = _key(one)
        if key not in self.copies or one.name.unique_id in self.retired_ids:
            self.copies[key] = one

    def action(self, one: FoundLog) -> StartupAction:
        match one.name.state:
            case DirectoryState.LIVE if self.logs.get(one.key) is one:
                return StartupAction.LOAD
            case DirectoryState.LIVE:
                return StartupAction.KEEP if self.why_misplaced(one) else StartupAction.STRAY
            case DirectoryState.FUTURE if one.obstacle or _wrong_owner(one, self.known):
                return StartupAction.KEEP
            case DirectoryState.FUTURE:
                return StartupAction.STRAY if self._is_stray(one) else self._action_for_copy(one)
            case DirectoryState.DELETE:
                return self._action_for_deleted(one)
            case DirectoryState.STRAY:
                return StartupAction.KEEP

    def why_misplaced(self, one: FoundLog) -> str | None:
        """Returns why a live directory that is not loaded was misplaced and must stay, or `None`.

        A directory of a deleted topic, or one beside the partition's own log, is only stray.
        """
        if one.obstacle is not None:
            return one.obstacle
        wrong = _wrong_owner(one, self.known)
        if wrong is not None:
            return wrong.text
        if one.key in self.logs or one.topic_id is None:
            return None
        entry = self.known.entries.get(one.name.topic)
        if entry is None or one.name.partition not in entry.partitions:
            return None
        said = f"has another topic id in its {PARTITION_METADATA} than topic {entry.name}"
        return f"{one.path} {said}; put the right directory in its place, or move it away"

    def _action_for_copy(self, one: FoundLog) -> StartupAction:
        log = self.logs.get(_key(one))
        if self.copies[_key(one)] is not one:
            return StartupAction.REMOVE
        if log is not None:
            is_beside = _parent(log) == _parent(one)
            return StartupAction.REMOVE if is_beside else StartupAction.COPY
        if one.name.unique_id in self.retired_ids:
            return StartupAction.PROMOTE
        return StartupAction.STRAY if self.is_complete else StartupAction.KEEP

    def _action_for_deleted(self, one: FoundLog) -> StartupAction:
        """Returns REMOVE, unless the directory may be all that is left of a partition.

        The directory's name may be truncated, so the topic's id identifies the partition.
        """
        entry = self._entry_of(one)
        if entry is None or one.name.partition not in entry.partitions:
            return StartupAction.REMOVE
        key = TopicPartition(entry.name, one.name.partition)
        copy = self.copies.get(key)
        is_promoted = copy is not None and copy.name.unique_id in self.retired_ids
        if key in self.logs or is_promoted:
            return StartupAction.REMOVE
        if not self.is_complete:
            return StartupAction.KEEP
        # A controller has partitions of a topic deleted that other brokers go on hosting.
        return StartupAction.REMOVE if self.is_replicated else StartupAction.STRAY

    def _entry_of(self, one: FoundLog) -> TopicImage | None:
        topic_id = one.topic_id or ZERO_UUID
        if topic_id == ZERO_UUID:
            entry = self.known.entries.get(one.name.topic)
            return entry if entry is not None and entry.topic_id == ZERO_UUID else None
        entries = self.known.entries.values()
        return next((entry for entry in entries if entry.topic_id == topic_id), None)

    def _is_stray(self, one: FoundLog) -> bool:
        if one.topic_id is None:
            return False
        present = self.present_ids.get(one.name.topic)
        entry = self.known.entries.get(one.name.topic)
        if present is None and entry is not None:
            present = entry.topic_id
        return present is not None and one.topic_id != present


def _key(one: FoundLog) -> TopicPartition:
    return TopicPartition(one.name.topic, one.name.partition)


def _parent(one: FoundLog) -> str:
    return parent_directory(one.path)
