"""Directories of a node of a KRaft cluster: what its start would refuse, with the same mend.

What such a directory lacks is never adopted, as that of a broker by itself: its quorum has it.
"""

from collections.abc import Iterator

from ottla.base.errors import CorruptionError
from ottla.base.files import join
from ottla.broker.metadata.quorum_files import (
    FETCH_AGAIN,
    MEND,
    files_of_stopped,
    judge_files,
    mend_of,
)
from ottla.diagnosis.complaints import Complaint, Remedy
from ottla.diagnosis.directories import Directories
from ottla.storage.diagnosis.directory_check import is_in_use
from ottla.storage.directory.log_directory import had_metadata_log
from ottla.storage.files.filenames import REPLICAS_MARK
from ottla.storage.files.meta_properties import VERSION_ZOOKEEPER, properties_of
from ottla.storage.files.metadata_files import (
    find_quorum_state,
    has_metadata_log,
    metadata_folder,
)

EITHER = f"of a controller: {MEND}; of a broker that does not vote: {FETCH_AGAIN}"


def is_of_quorum(directories: Directories) -> bool:
    """Whether the settings say so, or that a member of a cluster without ZooKeeper was there."""
    if directories.broker.is_quorate or directories.broker.zookeeper_connect:
        return directories.broker.is_quorate
    return any(_is_members(directories, one.path) for one in directories.opened)


def _is_members(directories: Directories, path: str) -> bool:
    disk = directories.file_system
    if disk.status(join(path, REPLICAS_MARK)) is None:
        return False
    try:
        properties = properties_of(disk, path)
    except CorruptionError:
        return False  # the complaint about the file comes first
    return properties is None or properties.version != VERSION_ZOOKEEPER


def check_quorum_files(directories: Directories) -> Iterator[Complaint]:
    """Damage of the metadata log and `quorum-state` of a stopped node, in one pass over the log's
    batches.
    """
    disk = directories.file_system
    paths = [one.path for one in directories.opened if not is_in_use(disk, one.path)]
    if len(paths) < len(directories.opened):
        return  # the node runs, and sees to its log itself
    logs = [path for path in paths if has_metadata_log(disk, path)]
    if not logs:
        yield _without_log(directories, paths)
    for path in logs:
        files = files_of_stopped(disk, path)
        is_controller = _is_controller(directories, path)
        try:
            judge_files(files, is_controller=is_controller)
        except CorruptionError as error:
            mend = mend_of(error, files, is_controller=is_controller)
            at = f" at byte {error.position}" if error.position else ""
            yield Complaint(
                kind="metadata_log",
                where=f"{error.path}{at}",
                what=f"{error.reason}; the node does not start with it",
                remedy=Remedy.AS_FOUND,
                subject=mend,
            )


def _without_log(directories: Directories, paths: list[str]) -> Complaint:
    """A lost log, or one in a directory that was not named, which is only noted."""
    disk = directories.file_system
    lost = [path for path in paths if had_metadata_log(disk, path)]
    return Complaint(
        kind="metadata_log",
        where=metadata_folder((lost or paths)[0]),
        what="the metadata log of this node of a cluster is not there",
        remedy=Remedy.AS_FOUND,
        subject=f"name its directory too, if metadata.log.dir is another one; a lost log {EITHER}",
        is_note=not lost,
    )


def _is_controller(directories: Directories, path: str) -> bool:
    """Whether the node votes, by its settings, or else by its log or its `quorum-state`."""
    if directories.broker.is_quorate:
        return directories.broker.has_controller_role
    voters = set(directories.found.image.voters)
    try:
        found = find_quorum_state(directories.file_system, path)
    except CorruptionError:
        found = None
    voters |= frozenset() if found is None else found.voter_ids
    return not voters or directories.found.node_id in voters
