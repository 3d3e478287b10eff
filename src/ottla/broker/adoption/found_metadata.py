"""Finds the metadata of a broker's directories: its own, that of another Kafka, or none.

A directory of a broker by itself has a metadata log (`__cluster_metadata-0`), of Ottla or Kafka.
The settings of topics that it does not have are unknown: their partitions were copied here, or are
of a broker with ZooKeeper, or the log is damaged or elsewhere. The default settings could delete
records that should be kept, so the broker deletes and compacts nothing in such topics until a user
confirms their settings (`ottla adopt`).

Everything here only reads. Kafka's counterparts: `MetadataLoader`, `BrokerMetadataPublisher`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.base.errors import CorruptionError, RefusalError, UserError
from ottla.base.files import FileSystem, join
from ottla.base.ids import Uuid
from ottla.base.scram import HASHES
from ottla.base.values import dataclass
from ottla.metadata.deciding.topic_rules import INTERNAL_TOPICS
from ottla.metadata.image import MetadataImage
from ottla.storage.files.clean_shutdown import read_clean_shutdown
from ottla.storage.files.filenames import (
    CLEAN_SHUTDOWN,
    METADATA_MARK,
    PARTITION_METADATA,
    DirectoryState,
    parse_directory_name,
)
from ottla.storage.files.integrity import integrity_damage
from ottla.storage.files.known_topics import NO_TOPICS, KnownTopics, known_topics_of
from ottla.storage.files.meta_properties import VERSION_ZOOKEEPER, properties_of
from ottla.storage.files.metadata_files import (
    has_metadata_log,
    metadata_folder,
    metadata_size,
    read_metadata_log,
    voters_of,
)
from ottla.storage.files.partition_metadata import read_topic_id

if TYPE_CHECKING:  # Lazy: a new directory has no metadata log.
    from ottla.metadata.log_files import ReadLog

IN_ZOOKEEPER = "the settings are in the ZooKeeper of the cluster that wrote the directory"
IN_QUORUM = "no controller of the cluster has told the settings yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMetadata:
    """What a start knows of topics, settings, users and rules.

    `path` is the directory of the metadata log, which there may be none of yet; `None` if it is
    offline. `reason` says why the settings of topics without a record are unknown.
    """

    path: str | None
    reason: str
    log: "ReadLog | None" = None
    known: KnownTopics = NO_TOPICS
    image: MetadataImage = MetadataImage()
    """What the log holds."""
    node_id: int = -1
    """The node of the directory with the log; -1 if it is not known."""
    was_torn: bool = False
    """Whether the log may end with a torn batch, or has no sound integrity file any more."""
    damage: CorruptionError | None = None
    refusal_reason: str | None = None
    """Why the log must not be continued."""

    @property
    def refusal(self) -> str | None:
        """The error of a change, if nothing can be changed."""
        if self.refusal_reason is None:
            return None
        return f"{self.refusal_reason}; stop the broker and run ottla adopt."

    @property
    def unread(self) -> str | None:
        """Why quotas, users, ACLs and settings of brokers and groups may be incomplete."""
        return None if self.damage is None else self.reason

    @property
    def is_log_read(self) -> bool:
        """Whether all settings are known, but for topics that the log does not have."""
        return self.log is not None and self.damage is None

    def why_unknown(self, topic: str, topic_id: Uuid | None) -> str | None:
        """Returns why the settings of a topic on disk are unknown; `None` if they are known."""
        if topic in INTERNAL_TOPICS:
            return None
        entry = self.known.entries.get(topic)
        is_known = entry is not None and topic_id in (None, entry.topic_id)
        is_known &= self.damage is None  # what cannot be read may have changed any topic
        return None if is_known else self.reason


def find_metadata(
    paths: Sequence[str],
    file_system: FileSystem,
    *,
    offline: Sequence[str] = (),
    wanted_path: str | None = None,
) -> FoundMetadata:
    """Reads the metadata in one broker's directories, but for those that are `offline`.

    A new log is to be in `wanted_path` (`metadata.log.dir`), or in the first directory. Raises
    `RefusalError` if the log is lost, and `UserError`.
    """
    for path in paths:
        _check_not_lost(path, file_system)
    # A node has one metadata log. An empty folder of this name in another directory must not hide
    # it.
    logs = [path for path in paths if has_metadata_log(file_system, path)]
    if logs:
        path = max(logs, key=lambda one: metadata_size(file_system, one))
        return _found_in(path, paths, file_system)
    if offline:
        names = " and ".join(offline)
        reason = f"the metadata log is not here, but may be in {names}, which is offline"
        return FoundMetadata(path=None, reason=reason)
    first = wanted_path or paths[0]
    return FoundMetadata(path=first, reason=_reason_without_log(paths, file_system))


def _check_not_lost(path: str, file_system: FileSystem) -> None:
    # The mark is checked first: a broker may be writing both.
    mark = join(path, METADATA_MARK)
    if file_system.status(mark) is None or has_metadata_log(file_system, path):
        return
    raise RefusalError(
        f"{metadata_folder(path)} is missing, though {METADATA_MARK} says that there was one: the "
        f"settings of topics, users and ACLs were in it; restore it. A broker by itself goes on "
        f"without them once {METADATA_MARK} is removed. A controller of a cluster must not vote "
        "without it: remove it from the voters, and format a new directory"
    )


def _reason_without_log(paths: Sequence[str], file_system: FileSystem) -> str:
    for path in paths:
        try:
            properties = properties_of(file_system, path)
        except CorruptionError:
            continue
        if properties is None:
            continue
        if properties.version == VERSION_ZOOKEEPER:
            return IN_ZOOKEEPER
        break
    return "there is no metadata log here that has its settings (metadata.log.dir)"


def _found_in(path: str, paths: Sequence[str], file_system: FileSystem) -> FoundMetadata:
    folder = metadata_folder(path)
    try:
        log = read_metadata_log(file_system, path)
    except OSError as error:
        raise UserError(f"{error.filename or folder}: {error.strerror}") from error
    image = log.content
    known = known_topics_of(image)
    node_id = _node_id(path, file_system)
    reason, refusal = f"the metadata log {folder} does not have its settings", None
    if log.damage is not None:
        reason = f"the metadata log cannot be read to its end ({log.damage})"
        refusal = f"The metadata log cannot be read to its end ({log.damage})"
    elif unreadable := _quorum_damage(path, file_system):
        refusal = str(unreadable)
    elif others := nodes_beside(image, node_id, voters_of(file_system, path)):
        refusal = (
            f"The metadata log {folder} is that of a cluster with other nodes ({_text(others)})"
        )
        known = _here(known, paths, file_system)
    was_clean = read_clean_shutdown(file_system, join(path, CLEAN_SHUTDOWN)) is not None
    check_known(image, folder)
    return FoundMetadata(
        path=path,
        reason=reason,
        log=log,
        known=known,
        image=image,
        node_id=node_id,
        was_torn=not was_clean or integrity_damage(file_system, folder) is not None,
        damage=log.damage,
        refusal_reason=refusal,
    )


def check_known(image: MetadataImage, folder: str) -> None:
    """Raises `RefusalError` for what a later Kafka has written about access: without it, clients
    might get access that a rule denies.
    """
    for acl in image.all_acls():
        if not acl.is_known:
            raise RefusalError(f"{folder}: an ACL has a kind that is not known here: {acl}")
    for user, mechanism in image.credentials:
        if mechanism not in HASHES:
            raise RefusalError(
                f"{folder}: the user {user} has the SCRAM mechanism {mechanism}, which is not "
                "known here"
            )


def _quorum_damage(path: str, file_system: FileSystem) -> CorruptionError | None:
    try:
        voters_of(file_system, path)
    except CorruptionError as error:
        return error
    return None


def nodes_beside(image: MetadataImage, node_id: int, voters: Iterable[int] = ()) -> list[int]:
    """The other nodes of the cluster whose log it is; `voters` are those of `quorum-state`.

    Controllers that vote no more stay registered (below metadata.version 33 for ever), and a log
    with one voter lacks nothing that they may have.
    """
    controllers = {*image.voters, *voters} or image.controllers
    return sorted({*image.brokers, *controllers} - {node_id})


def _text(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _node_id(path: str, file_system: FileSystem) -> int:
    try:
        properties = properties_of(file_system, path)
    except CorruptionError:
        return -1  # reported when the directory is opened
    return -1 if properties is None or properties.node_id is None else properties.node_id


def _here(known: KnownTopics, paths: Sequence[str], file_system: FileSystem) -> KnownTopics:
    """The topics of which a partition is in the directories; other nodes may hold all of one."""
    ids = _topic_ids(paths, file_system)
    entries = {
        name: entry
        for name, entry in known.entries.items()
        if entry.topic_id in ids.get(name, ()) or ids.get(name) == {None}
    }
    return replace(known, entries=entries)


def _topic_ids(paths: Sequence[str], file_system: FileSystem) -> Mapping[str, set[Uuid | None]]:
    """Returns the topic ids in the partitions' directories, by topic."""
    ids: dict[str, set[Uuid | None]] = {}
    for path in paths:
        for name in file_system.list(path):
            parsed = parse_directory_name(name)
            if parsed is None or parsed.state is not DirectoryState.LIVE:
                continue
            try:
                topic_id = read_topic_id(file_system, join(path, name, PARTITION_METADATA))
            except CorruptionError:
                topic_id = None
            ids.setdefault(parsed.topic, set()).add(topic_id)
    return ids
