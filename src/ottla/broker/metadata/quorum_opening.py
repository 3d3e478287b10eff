"""Opens the metadata directory of a node of the quorum: its log, its `quorum-state`, its voters.

Everything is checked first: a voter that has lost records it had acknowledged must not vote, since
another could be elected that lacks them too. Nothing is deleted then; one line names the damage. A
torn end that was not synced was not acknowledged, and is cut off.

Format pages: docs/format/cluster-metadata.md, docs/format/quorum-state.md. Kafka's counterpart:
`KafkaMetadataLog.apply`, which truncates at any damage.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from ottla.base.errors import CorruptionError, ProtocolError, RefusalError
from ottla.base.files import FileSystem, join, read_file
from ottla.broker.metadata.log import METADATA_CONFIG
from ottla.broker.metadata.quorum_log import (
    DEFAULT_LIMITS,
    PartitionQuorumLog,
    SegmentLimits,
    find_snapshots,
    remove_parts,
    snapshot_name,
)
from ottla.broker.metadata.quorum_state import QuorumStateFile
from ottla.config.topic import TopicConfig
from ottla.metadata.log_check import check_log
from ottla.metadata.log_files import MetadataFile
from ottla.quorum.election_state import ElectionState
from ottla.quorum.log import take_history
from ottla.quorum.voters import ReplicaKey, Voter, VoterHistory, VoterSet
from ottla.storage.files.boot_note import WrittenEnds
from ottla.storage.files.directory_health import DirectoryHealth
from ottla.storage.files.filenames import (
    CLUSTER_METADATA_DIRECTORY,
    LEADER_EPOCHS,
    METADATA_MARK,
)
from ottla.storage.files.integrity import read_integrity
from ottla.storage.files.metadata_files import (
    PRODUCER_SNAPSHOT_NAME,
    SEGMENT_NAME,
    has_metadata_log,
    metadata_folder,
)
from ottla.storage.log.leader_epochs import read_epoch_entries
from ottla.storage.log.partition_log import PartitionLog

SNAPSHOT_SUFFIX = ".checkpoint"
BYTES_PER_INDEX_ENTRY = 4096
LARGEST_ENTRY_SIZE = 12

MEND = (
    "a node that has lost records must not vote: restore the directory from a copy of this node, "
    "or remove the node from the voters, format a new directory and let it join again"
)

FETCH_AGAIN = (
    f"move {CLUSTER_METADATA_DIRECTORY} and {METADATA_MARK} away, and the broker fetches all of it "
    "again"
)

LOST_STATE = "remove the file, and the node takes part again when it has heard all other voters"

MOVE_AWAY = "move it away: what the log has beside it is whole without it"


class QuorumPlace(Protocol):
    """The part of a log directory that the quorum's log needs."""

    path: str
    health: DirectoryHealth
    was_clean_stop: bool
    written: WrittenEnds | None

    def open_metadata_log(
        self, config: TopicConfig, file_system: FileSystem | None = None
    ) -> PartitionLog: ...


class OpenedQuorum(NamedTuple):
    """`election` is what `Quorum.start` takes: `None` if a used directory has lost the file.
    `first_voter` says that a broker by itself had the directory, as `QuorumOptions` has it.
    """

    log: PartitionQuorumLog
    elections: QuorumStateFile
    election: ElectionState | None
    history: VoterHistory
    first_voter: bool = False


def open_quorum(
    place: QuorumPlace,
    file_system: FileSystem,
    settings_voters: VoterSet,
    now_ms: Callable[[], int],
    limits: SegmentLimits = DEFAULT_LIMITS,
    own: Voter | None = None,
) -> OpenedQuorum:
    """Opens what a node has of the quorum, or begins it in a directory that was only formatted.

    The quorum's threads use `file_system` afterwards. `settings_voters` are those of
    `controller.quorum.voters`, none for a dynamic quorum. `own` is the node as a controller: in a
    directory of a broker by itself it is the first voter. Raises `RefusalError` for damage, without
    a change, and `StorageError`.
    """
    elections = QuorumStateFile(file_system, place.health)
    mend = FETCH_AGAIN if own is None else MEND
    with place.health.guarding():
        try:
            election, end = _checked(place, file_system, elections)
        except CorruptionError as error:
            if error.path == elections.path:
                mend = LOST_STATE
            elif _is_whole_without(error.path, place, file_system):
                mend = MOVE_AWAY
            raise RefusalError(f"{error}; {mend}") from error
    opened = place.open_metadata_log(_config(limits), file_system)
    if opened.log_end_offset != end:
        raise RefusalError(
            f"{opened.directory}: the log ends at offset {end}, and cannot go on there; {mend}"
        )
    with place.health.guarding():
        remove_parts(file_system, opened.directory)
    log = PartitionQuorumLog(opened, file_system, now_ms, limits)
    history = VoterHistory(0, settings_voters)
    try:
        take_history(log, history)
    except ProtocolError as error:
        raise RefusalError(f"{opened.directory}: {error}; {mend}") from error
    if own is not None and not history.kraft_version:
        _check_same_voters(elections, settings_voters)
    first_voter = own is not None and _is_first_voter(elections, history, own)
    if own is not None and first_voter:
        history = VoterHistory(0, VoterSet.of([own._replace(key=ReplicaKey(own.key.id))]))
    if not elections.was_used:
        elections.write(ElectionState(), history.kraft_version, history.voters)
    return OpenedQuorum(log, elections, election, history, first_voter)


def _check_same_voters(elections: QuorumStateFile, voters: VoterSet) -> None:
    """Raises `RefusalError` for voters of the settings that are others than they were: a majority
    of these may never have heard of what the former ones committed. As in Kafka up to 3.8.
    """
    found = elections.find()
    before = set() if found is None else found.voter_ids
    if before and voters and before != voters.ids:
        raise RefusalError(
            f"{elections.path}: the voters were {_numbers(before)}, and controller.quorum.voters "
            f"names {_numbers(voters.ids)}: name the same again. With kraft.version=1 (ottla "
            "cluster features) ottla cluster add-controller and remove-controller change them; if "
            "the others are lost for good, remove the file"
        )


def _numbers(ids: Collection[int]) -> str:
    return ", ".join(map(str, sorted(ids)))


def _is_first_voter(elections: QuorumStateFile, history: VoterHistory, own: Voter) -> bool:
    """Whether neither settings nor log name voters, and the node has voted for itself alone."""
    found = elections.find()
    if history.voters or found is None:
        return False
    if found.leader_id == own.key.id and not found.voter_ids:
        return True  # a power failure has kept the file, and not the record of the voters
    if own.key.id not in found.voter_ids:
        return False
    if others := found.voter_ids - {own.key.id}:
        raise RefusalError(
            f"{elections.path}: the voters of this cluster are named by its settings: name this "
            f"node and {_numbers(others)} in controller.quorum.voters"
        )
    return True


def _config(limits: SegmentLimits) -> TopicConfig:
    """Indexes have room for a whole segment: only the quorum's log itself begins another one."""
    room = limits.size // BYTES_PER_INDEX_ENTRY * LARGEST_ENTRY_SIZE
    return replace(
        METADATA_CONFIG, segment_index_bytes=max(METADATA_CONFIG.segment_index_bytes, room)
    )


def _checked(
    place: QuorumPlace, file_system: FileSystem, elections: QuorumStateFile
) -> tuple[ElectionState | None, int]:
    """What the files say of elections, and the end of the log; raises `CorruptionError`."""
    folder = metadata_folder(place.path)
    has_mark = file_system.status(join(place.path, METADATA_MARK)) is not None
    if not has_metadata_log(file_system, place.path):
        if has_mark:
            reason = f"it is missing, though {METADATA_MARK} says that there was one"
            raise CorruptionError(folder, 0, reason)
        elections.was_used = False
        return ElectionState(), 0
    snapshots = _snapshots(file_system, folder)
    segments = _segments(file_system, folder)
    epochs = _epochs(file_system, folder)
    end = check_log(snapshots, segments, epochs, may_be_torn=not place.was_clean_stop)
    _check_end(place, file_system, end.offset)
    has_records = end.offset > 0 or any(one.offset > 0 for one in snapshots)
    elections.was_used = has_mark or has_records
    election = elections.read()
    if election is not None and election.epoch < end.epoch:
        reason = f"it says epoch {election.epoch}, and the log has records of epoch {end.epoch}"
        raise CorruptionError(elections.path, 0, reason)
    return election, end.offset


def _is_whole_without(path: str, place: QuorumPlace, file_system: FileSystem) -> bool:
    """Whether all that a damaged snapshot has is in the log, or an earlier snapshot and the log."""
    folder = metadata_folder(place.path)
    if not path.endswith(SNAPSHOT_SUFFIX):
        return False
    every = _snapshots(file_system, folder)
    others = [one for one in every if one.path != path]
    segments = _segments(file_system, folder)
    try:
        end = check_log(others, segments, (), may_be_torn=not place.was_clean_stop)
    except CorruptionError:
        return False
    return end.offset >= every[-1].offset


def _epochs(file_system: FileSystem, folder: str) -> Sequence[tuple[int, int]]:
    """Those of the checkpoint; opening the log rebuilds a lost or damaged one."""
    try:
        entries = read_epoch_entries(file_system, join(folder, LEADER_EPOCHS))
    except (FileNotFoundError, CorruptionError):
        return ()
    return [(one.epoch, one.start_offset) for one in entries]


def _check_end(place: QuorumPlace, file_system: FileSystem, end: int) -> None:
    """Raises `CorruptionError` for a log that ends before an end that is known."""
    folder = metadata_folder(place.path)
    known_end = 0
    if place.was_clean_stop:
        # Kafka writes one at the end of a log that is closed, as Ottla does.
        matches = map(PRODUCER_SNAPSHOT_NAME.fullmatch, file_system.list(folder))
        known_end = max((int(one[1]) for one in matches if one), default=0)
    noted = place.written
    integrity = read_integrity(file_system, folder)
    if integrity is not None and noted is not None:
        known_end = max(known_end, noted.of(CLUSTER_METADATA_DIRECTORY))
    if integrity is not None and (place.was_clean_stop or noted is not None):
        starts = [one.offset for one in _segments(file_system, folder, is_read=False)]
        known_end = max(known_end, integrity.end_of_missing(starts))
    if end < known_end:
        raise CorruptionError(folder, 0, f"the log ends at offset {end}, and had {known_end}")


def _snapshots(file_system: FileSystem, folder: str) -> list[MetadataFile]:
    found = []
    for one in find_snapshots(file_system, folder):
        path = join(folder, snapshot_name(one))
        content = read_file(file_system, path)
        found.append(
            MetadataFile(path=path, content=content, offset=one.end_offset, epoch=one.epoch)
        )
    return found


def _segments(file_system: FileSystem, folder: str, *, is_read: bool = True) -> list[MetadataFile]:
    found = []
    for name in sorted(file_system.list(folder)):
        if match := SEGMENT_NAME.fullmatch(name):
            path = join(folder, name)
            content = read_file(file_system, path) if is_read else b""
            found.append(MetadataFile(path=path, content=content, offset=int(match[1])))
    return found
