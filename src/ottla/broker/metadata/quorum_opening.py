"""Opens the metadata directory of a node of the quorum: its log, its `quorum-state`, its voters.

Everything is checked first: a voter that has lost records it had acknowledged must not vote, since
another could be elected that lacks them too. Nothing is deleted then; one line names the damage. A
torn end that was not synced was not acknowledged, and is cut off.

Format pages: docs/format/cluster-metadata.md, docs/format/quorum-state.md. Kafka's counterpart:
`KafkaMetadataLog.apply`, which truncates at any damage.
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import NamedTuple, Protocol

from ottla.base.errors import CorruptionError, ProtocolError, RefusalError
from ottla.base.files import FileSystem
from ottla.broker.metadata.log import METADATA_CONFIG
from ottla.broker.metadata.quorum_files import (
    FETCH_AGAIN,
    MEND,
    QuorumFiles,
    judge_files,
    mend_of,
)
from ottla.broker.metadata.quorum_log import (
    DEFAULT_LIMITS,
    PartitionQuorumLog,
    SegmentLimits,
    remove_parts,
)
from ottla.broker.metadata.quorum_state import QuorumStateFile
from ottla.config.topic import TopicConfig
from ottla.quorum.election_state import ElectionState
from ottla.quorum.log import take_history
from ottla.quorum.voters import ReplicaKey, Voter, VoterHistory, VoterSet
from ottla.storage.files.boot_note import WrittenEnds
from ottla.storage.files.directory_health import DirectoryHealth
from ottla.storage.log.partition_log import PartitionLog

BYTES_PER_INDEX_ENTRY = 4096
LARGEST_ENTRY_SIZE = 12


class QuorumPlace(Protocol):
    """The part of a log directory that the quorum's log needs."""

    path: str
    health: DirectoryHealth
    was_clean_stop: bool
    had_metadata_log: bool
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
    files = QuorumFiles(
        file_system,
        place.path,
        was_clean_stop=place.was_clean_stop,
        written=place.written,
        had_log=place.had_metadata_log,
    )
    with place.health.guarding():
        try:
            judged = judge_files(files, is_controller=own is not None)
        except CorruptionError as error:
            mend = mend_of(error, files, is_controller=own is not None)
            raise RefusalError(f"{error}; {mend}") from error
    elections.was_used = judged.was_used
    mend = MEND if own is not None else FETCH_AGAIN
    opened = place.open_metadata_log(_config(limits), file_system)
    if opened.log_end_offset != judged.end:
        raise RefusalError(
            f"{opened.directory}: the log ends at offset {judged.end}, and cannot go on there; "
            f"{mend}"
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
    return OpenedQuorum(log, elections, judged.election, history, first_voter)


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
