"""Opens log directories as one broker, and completes operations that a crash interrupted.

Kafka's counterparts: `BrokerMetadataCheckpoint` at startup, and the orders of its controller about
topics that are partly created or deleted.
"""

import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING

from ottla.base.errors import CorruptionError, RefusalError, StorageError, UserError
from ottla.base.events import OnEvent, pass_over
from ottla.base.files import FileSystem, join
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.broker.adoption.found_metadata import FoundMetadata
from ottla.broker.coordination.producer_ids import MOST_LOST
from ottla.broker.membership.by_itself import NoMembership
from ottla.broker.membership.quorum_start import QuorumStart
from ottla.broker.startup.startup_plan import DirectoryPlan, find_lost, plan_startup
from ottla.broker.topics.on_disk import OpenedDirectories, TopicConfigs
from ottla.metadata.image import TopicImage
from ottla.storage.directory.directory_claim import UnusableDirectoryError, names_in
from ottla.storage.directory.found_logs import FoundLog
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.directory.open_options import OpenOptions, run_in_turn
from ottla.storage.files.filenames import (
    CLUSTER_METADATA,
    META_PROPERTIES,
    DirectoryState,
    partition_directory_name,
)
from ottla.storage.files.known_topics import KnownTopics
from ottla.storage.files.meta_properties import MetaProperties, properties_of
from ottla.storage.files.metadata_files import has_metadata_log, metadata_folder
from ottla.storage.files.named_partitions import read_named_partitions

if TYPE_CHECKING:
    from ottla.base.clock import WaitingClock
    from ottla.broker.membership.membership import AnyMembership
    from ottla.broker.replication.effects import BeforeEffect
    from ottla.config.broker import BrokerConfig
    from ottla.storage.remote.remote_storage import RemoteStorage

logger = logging.getLogger(__name__)


RunAll = Callable[[Sequence[Callable[[], object]]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerOptions:
    """The caller's part: time, randomness, ids, and the identity of new directories."""

    now_ms: int
    new_id: Callable[[], Uuid]
    random_below: Callable[[int], int]
    node_id: int = 1
    is_node_id_wanted: bool = False
    cluster_id: str
    on_progress: Callable[[str], None] = field(default=pass_over)
    on_event: OnEvent = field(default=pass_over)
    run_all: RunAll = field(default=run_in_turn)
    """Runs the given calls, one for every log of one directory."""
    run_directories: RunAll = field(default=run_in_turn)
    """Runs the given calls, one for every directory."""
    membership: "AnyMembership | NoMembership" = field(default_factory=NoMembership)
    """For a broker in a cluster, whose controller assigns partitions and leaders."""
    quorum: QuorumStart | None = None
    """For such a broker in a KRaft cluster."""
    before_effect: "BeforeEffect | None" = None
    """Called before each effect on the replicas of such a broker."""
    waiting_clock: "WaitingClock | None" = None
    """What the threads wait by that copy segments to the remote tier; `None` if they do not."""
    open_remote_storage: "Callable[[BrokerConfig, FileSystem], RemoteStorage] | None" = None
    """Opens the remote tier, if not by the broker's settings."""

    @property
    def is_member(self) -> bool:
        """Whether the broker is to be one of a cluster."""
        return not isinstance(self.membership, NoMembership)

    def with_node_id(self, node_id: int | None) -> "BrokerOptions":
        """Returns the options of a broker that must have this node id; directories of others are
        refused.
        """
        if node_id is None:
            return self
        return dataclasses.replace(self, node_id=node_id, is_node_id_wanted=True)


def open_directories(
    paths: Sequence[str],
    file_system: FileSystem,
    options: BrokerOptions,
    configs: Callable[[Mapping[str, TopicImage]], TopicConfigs],
    found: FoundMetadata,
) -> tuple[OpenedDirectories, TopicConfigs]:
    """Opens all directories that can be opened; raises `UserError` naming the path and the fix.

    A directory that cannot be read, locked or loaded is offline from the start. Raises if no
    directory is left.
    """
    failures = failing_paths(paths, file_system)
    readable = [path for path in paths if path not in failures]
    try:
        cluster_id, node_id = _identity(readable, file_system, options)
    except CorruptionError as error:
        raise RefusalError(f"{error}; restore the file, or move it away") from error
    known = found.known
    topic_configs = configs(known.entries)
    open_options = OpenOptions(
        now_ms=options.now_ms,
        node_id=node_id,
        cluster_id=cluster_id,
        new_id=options.new_id,
        random_below=options.random_below,
        topic_config=topic_configs.get,
        knows_topic=lambda topic: found.why_unknown(topic, None) is None,
        is_replicated=options.is_member,
        is_in_zookeeper=options.is_member and options.quorum is None,
        on_progress=options.on_progress,
        run_all=options.run_all,
    )
    opener = _Opener(file_system, open_options, failures)
    directories, refused = opener.open_all(paths, found, options.run_directories)
    opened = OpenedDirectories(
        directories=directories,
        refused=refused,
        entries=known.entries,
        has_all_partitions=not options.is_member,
        may_be_changed=found.refusal is None,
        is_damaged=found.damage is not None,
        unknown=found.reason,
        cluster_id=cluster_id,
        node_id=node_id,
        # A client may have an id with which it has written nothing yet: its first records would
        # count as duplicates of another client's with this id.
        next_producer_id=max(found.image.next_producer_id, _highest_producer_id(directories) + 1)
        + (0 if found.damage is None else MOST_LOST),
    )
    return opened, topic_configs


def check_paths(paths: Sequence[str], file_system: FileSystem) -> None:
    """Raises `UserError` unless there are paths, all different."""
    if not paths:
        raise UserError("name at least one log directory")
    seen: dict[str, str] = {}
    for path in paths:
        place = file_system.canonical(path)
        if place in seen:
            raise UserError(
                f"{seen[place]} and {path} are the same log directory; name each only once"
            )
        seen[place] = path


def failing_paths(paths: Sequence[str], file_system: FileSystem) -> dict[str, str]:
    """Returns why directories cannot be read, for those that cannot.

    Raises `UserError` if no directory can be read, and for a path that is not a directory.
    """
    failures = {}
    for path in paths:
        try:
            _look_into(path, file_system)
        except (OSError, CorruptionError) as error:
            failures[path] = _reason(path, error)
    if len(failures) == len(paths):
        raise _none_left(list(failures.values()))
    return failures


def _none_left(reasons: Sequence[str]) -> UserError:
    if len(reasons) == 1:
        return UserError(reasons[0])
    return UserError("no log directory can be used: " + "; ".join(reasons))


def _look_into(path: str, file_system: FileSystem) -> None:
    """Raises the error that reading the directory's own files raises."""
    if names_in(file_system, path) is None:
        return
    properties_of(file_system, path)
    if has_metadata_log(file_system, path):
        file_system.list(metadata_folder(path))


def _reason(path: str, error: OSError | CorruptionError) -> str:
    if isinstance(error, CorruptionError):
        return f"{error}; restore the file or name another directory"
    place = error.filename or path
    return f"{place}: {error.strerror}; name a directory that can be read and written"


class _Opener:
    """Opens directories; `failures` maps offline directories to the reasons."""

    def __init__(
        self, file_system: FileSystem, options: OpenOptions, failures: dict[str, str]
    ) -> None:
        self._file_system = file_system
        self._options = options
        self._failures = failures

    def open_all(
        self, paths: Sequence[str], settings: FoundMetadata, run_directories: RunAll
    ) -> tuple[list[LogDirectory], dict[TopicPartition, str]]:
        """Returns the directories, and why partitions are refused."""
        directories: list[LogDirectory] = []
        known = settings.known
        try:
            for path in paths:
                claimed = self._claim(path)
                directories += [] if claimed is None else [claimed]
            if not directories:
                raise _none_left([self._failures[path] for path in paths])
            by_path = {one.path: one for one in directories}
            directories[:] = [by_path.get(path) or self._offline(path) for path in paths]
            _check_ids(directories)
            found = [self._find_logs(directory) for directory in directories]
            is_complete = not any(directory.is_offline for directory in directories)
            plan = plan_startup(
                found,
                known,
                is_complete=is_complete,
                is_replicated=self._options.is_replicated,
                named=[self._named(directory) for directory in directories],
            )
            pairs = zip(directories, plan.directories, strict=True)
            run_directories([partial(self._load, directory, some) for directory, some in pairs])
            self._check_any_left(directories)
            # A controller has single partitions deleted, which topic files do not record. And Kafka
            # writes its checkpoints a moment after it has renamed a deleted log.
            may_be_put_away = self._options.is_replicated or not known.is_found
            put_away = _put_away(found) if may_be_put_away else set()
            refused = {**_why_lost(directories, put_away | plan.deleted, known), **plan.refused}
            for (topic, index), reason in refused.items():
                logger.error("%s-%d is refused: %s", topic, index, reason)
            for directory in directories:
                directory.checkpoints.refuse(refused)
                with suppress(StorageError):  # the directory is offline then
                    directory.checkpoints.record_kept()
        except BaseException:
            for directory in directories:
                directory.abandon()
            raise
        return directories, refused

    def _claim(self, path: str) -> LogDirectory | None:
        if path not in self._failures:
            try:
                return LogDirectory.claim(path, self._file_system, self._options)
            except (UnusableDirectoryError, StorageError) as error:
                self._failures[path] = str(error)
        return None

    def _offline(self, path: str) -> LogDirectory:
        reason = self._failures[path]
        return LogDirectory.offline(path, self._file_system, self._options, reason)

    def _find_logs(self, directory: LogDirectory) -> list[FoundLog]:
        if not directory.is_offline:
            with suppress(StorageError):
                return directory.find_logs()
        return []

    def _named(self, directory: LogDirectory) -> Set[TopicPartition]:
        """The partitions that the checkpoints of a directory name."""
        if not directory.is_offline:
            with suppress(OSError):  # reported when the directory is loaded
                return read_named_partitions(self._file_system, directory.path).partitions()
        return frozenset()

    def _load(self, directory: LogDirectory, plan: DirectoryPlan) -> None:
        if directory.is_offline:
            return
        try:
            directory.load(plan)
        except StorageError:
            directory.abandon()
            directory.logs.clear()
            directory.futures.clear()

    def _check_any_left(self, directories: Sequence[LogDirectory]) -> None:
        if not all(directory.is_offline for directory in directories):
            return
        raise _none_left(
            [self._failures.get(one.path) or str(one.health.failure) for one in directories]
        )


def _put_away(found: Sequence[Sequence[FoundLog]]) -> set[TopicPartition]:
    states = (DirectoryState.DELETE, DirectoryState.STRAY)
    return {one.key for some in found for one in some if one.name.state in states}


def _why_lost(
    directories: Sequence[LogDirectory], put_away: set[TopicPartition], known: KnownTopics
) -> dict[TopicPartition, str]:
    """Returns the fix for each partition that a checkpoint names but no directory contains.

    Returns nothing while a directory is offline, since its contents are unknown. If the checkpoint
    that names all partitions was lost to damage, those of the metadata log count too; then a
    creation that a crash interrupted counts as lost.
    """
    if any(directory.is_offline for directory in directories):
        return {}
    held = {key for directory in directories for key in directory.logs} | put_away
    reasons = {}
    for directory in directories:
        checkpoints = directory.checkpoints
        if not checkpoints.named.is_complete:
            checkpoints.name_also(
                CLUSTER_METADATA,
                [
                    TopicPartition(entry.name, index)
                    for entry in known.entries.values()
                    for index in entry.partitions
                ],
            )
        for key in find_lost(known, checkpoints.named.partitions(), held):
            name = partition_directory_name(*key)
            reasons[key] = (
                f"{join(directory.path, name)} is not there, though "
                f"{checkpoints.named.file_of(key)} names it; put it back, or give it up with: "
                f"ottla log give-up {directory.path} {name}"
            )
    return reasons


def _check_ids(directories: Sequence[LogDirectory]) -> None:
    """Raises `UserError` if two directories have the same id, since one is a copy (KIP-858)."""
    seen: dict[Uuid, str] = {}
    for directory in directories:
        if directory.directory_id is None:
            continue
        other = seen.setdefault(directory.directory_id, directory.path)
        if other != directory.path:
            raise UserError(
                f"{other} and {directory.path} have the same directory.id; take the line out of "
                f"{join(directory.path, META_PROPERTIES)} if that one is a copy"
            )


def _identity(
    paths: Sequence[str], file_system: FileSystem, options: BrokerOptions
) -> tuple[str, int]:
    """Returns the cluster and node id of the directories, or those for new ones."""
    known: MetaProperties | None = None
    for path in paths:
        properties = properties_of(file_system, path)
        if properties is None:
            continue
        if known is None:
            known = properties
        elif (properties.cluster_id, properties.node_id) != (known.cluster_id, known.node_id):
            raise UserError(f"{path} belongs to another cluster or node than {paths[0]}")
    if known is None:
        return options.cluster_id, options.node_id
    node_id = options.node_id if known.node_id is None else known.node_id
    if options.is_node_id_wanted and node_id != options.node_id:
        noun = "broker" if options.is_member and options.quorum is None else "node"
        raise UserError(
            f"{paths[0]} belongs to {noun} {node_id}, but {noun}.id is {options.node_id}; change "
            "the setting, or name another directory"
        )
    return known.cluster_id or options.cluster_id, node_id


def _highest_producer_id(directories: Sequence[LogDirectory]) -> int:
    """Returns the highest id in any log; logs from Kafka contain Kafka's ids."""
    return max(
        (
            producer_id
            for directory in directories
            for log in directory.logs.values()
            for producer_id in log.producers.entries
        ),
        default=-1,
    )
