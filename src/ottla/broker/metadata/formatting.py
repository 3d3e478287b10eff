"""Formats the directories of a new node of a KRaft cluster, as `kafka-storage format` does.

Each directory gets `meta.properties` and `bootstrap.checkpoint`, the cluster's first records. In a
dynamic quorum (KIP-853) the metadata directory also gets a snapshot that ends at offset 0 and names
the voters; who is to be added to a quorum later gets none. `meta.properties` is last: after a crash
before that, the directory is not formatted, and is formatted again.

Format pages: docs/format/cluster-metadata.md, docs/format/meta-properties.md. Kafka's counterpart:
`Formatter`.
"""

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Final, NamedTuple

from ottla.base.addresses import parse_address
from ottla.base.errors import CorruptionError, RefusalError, UserError
from ottla.base.files import FileSystem, join, make_durable_directory, replace_file
from ottla.base.ids import Uuid, is_reserved, parse_uuid
from ottla.base.values import dataclass
from ottla.broker.metadata.quorum_log import BOOTSTRAP_SNAPSHOT, snapshot_name
from ottla.metadata.image_changes import VersionedRecord
from ottla.metadata.log_writing import snapshot_parts
from ottla.quorum.voters import Endpoint, ReplicaKey, Voter, VoterSet, voter_records
from ottla.storage.directory.directory_claim import names_in
from ottla.storage.directory.owner_note import refuse_in_use
from ottla.storage.files.filenames import (
    BOOTSTRAP_CHECKPOINT,
    CLUSTER_METADATA_DIRECTORY,
    LOCK,
    META_PROPERTIES,
    METADATA_MARK,
)
from ottla.storage.files.meta_properties import (
    MetaProperties,
    properties_of,
    write_meta_properties,
)
from ottla.storage.files.metadata_files import metadata_folder

LEFT_OVERS: Final = (BOOTSTRAP_CHECKPOINT, LOCK, "lost+found")
"""What a directory may hold that is not formatted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatOptions:
    """The node, and what its cluster begins with.

    `records` are the first ones, `metadata.version` before others. `metadata_directory` is the
    first directory unless it is named (`metadata.log.dir`). At most one of these is given, neither
    for a static quorum or for a node that is added later: `standalone`, the listener of a node that
    is the only voter, or `voters` with their directories (`--initial-controllers`).
    """

    node_id: int
    cluster_id: str
    records: Sequence[VersionedRecord]
    now_ms: int
    new_id: Callable[[], Uuid]
    metadata_directory: str | None = None
    standalone: Endpoint | None = None
    voters: VoterSet | None = None
    ignore_formatted: bool = False


class Formatted(NamedTuple):
    """A directory that was formatted; `is_new` is false for one that had been before."""

    path: str
    directory_id: Uuid | None
    is_new: bool


def format_directories(
    paths: Sequence[str], file_system: FileSystem, options: FormatOptions
) -> list[Formatted]:
    """Formats a node's directories, those of `log.dirs` and `metadata.log.dir`.

    Raises `RefusalError` for a directory that is formatted already (unless `ignore_formatted`), of
    another node or in use, and `UserError` for one that cannot be written or holds other files. No
    directory is changed then.
    """
    metadata_path = options.metadata_directory or paths[0]
    every = list(dict.fromkeys([*paths, metadata_path]))
    try:
        known = {path: _known(path, file_system, options) for path in every}
        voters = _voters(options)
        found = []
        for path in every:
            one = known[path]
            if one is None:
                is_metadata = path == metadata_path
                one = _identity(options, voters if is_metadata else None)
                _format(path, file_system, options, one, voters if is_metadata else None)
                found.append(Formatted(path, one.directory_id, True))
            else:
                found.append(Formatted(path, one.directory_id, False))
    except OSError as error:
        raise UserError(f"{error.filename or paths[0]}: {error.strerror}") from error
    return found


def begin_as_first_voter(
    path: str, file_system: FileSystem, own: Voter, records: Sequence[VersionedRecord], now_ms: int
) -> None:
    """Gives the directory of a broker by itself that has no metadata log yet, since nothing was
    asked of it, its first records and its voter; without one nobody would lead.

    Leaves what was formatted or has a log as it is. Raises `UserError` for a directory that is in
    use, and `OSError`.
    """
    names = names_in(file_system, path) or []
    if BOOTSTRAP_CHECKPOINT in names or METADATA_MARK in names:
        return
    if _has_no_log(path, file_system, names):
        _check_idle(path, file_system, "stop it first")
        _write_begin(path, file_system, now_ms, VoterSet.of([own]), records)


def _voters(options: FormatOptions) -> VoterSet | None:
    if options.standalone is None:
        return options.voters
    key = ReplicaKey(options.node_id, options.new_id())
    return VoterSet.of([Voter(key, (options.standalone,))])


def _identity(options: FormatOptions, voters: VoterSet | None) -> MetaProperties:
    own = None if voters is None else voters.get(options.node_id)
    return MetaProperties(
        cluster_id=options.cluster_id,
        node_id=options.node_id,
        directory_id=options.new_id() if own is None else own.key.directory_id,
    )


# Checks


def _known(path: str, file_system: FileSystem, options: FormatOptions) -> MetaProperties | None:
    """What a formatted directory says; `None` for one that can be formatted."""
    names = names_in(file_system, path) or []
    if META_PROPERTIES not in names:
        _check_unused(path, file_system, names)
        return None
    try:
        known = properties_of(file_system, path)
    except CorruptionError as error:
        raise RefusalError(f"{error}; restore the file") from error
    assert known is not None
    for name, wanted, has in (
        ("cluster.id", options.cluster_id, known.cluster_id),
        ("node.id", options.node_id, known.node_id),
    ):
        if has != wanted:
            raise RefusalError(
                f"{path} is formatted with {name} {has}, not {wanted}; name another directory, or "
                f"{has}"
            )
    if not options.ignore_formatted:
        raise RefusalError(
            f"{path} is already formatted; --ignore-formatted leaves it as it is, and formats the "
            "others"
        )
    return known


def _check_unused(path: str, file_system: FileSystem, names: Sequence[str]) -> None:
    _check_idle(path, file_system, "stop it, or name another directory")
    strangers = [one for one in names if one not in LEFT_OVERS and not one.endswith(".tmp")]
    if CLUSTER_METADATA_DIRECTORY in strangers and _has_no_log(path, file_system, names):
        strangers.remove(CLUSTER_METADATA_DIRECTORY)
    if strangers:
        raise UserError(
            f"{path} has no {META_PROPERTIES}, but holds {', '.join(strangers[:3])}; name an empty "
            "or a new directory"
        )


def _check_idle(path: str, file_system: FileSystem, mend: str) -> None:
    if file_system.lock_holder(join(path, LOCK)) is not None:
        raise refuse_in_use(file_system, path, mend)


def _has_no_log(path: str, file_system: FileSystem, names: Sequence[str]) -> bool:
    """Whether there is nothing of a metadata log but what a format begins it with."""
    if CLUSTER_METADATA_DIRECTORY not in names:
        return True
    first = snapshot_name(BOOTSTRAP_SNAPSHOT)
    inside = file_system.list(metadata_folder(path))
    return all(one.removesuffix(".tmp") == first for one in inside)


# Files


def _format(
    path: str,
    file_system: FileSystem,
    options: FormatOptions,
    identity: MetaProperties,
    voters: VoterSet | None,
) -> None:
    make_durable_directory(file_system, path)
    _write_begin(path, file_system, options.now_ms, voters, options.records)
    write_meta_properties(file_system, join(path, META_PROPERTIES), identity, now_ms=options.now_ms)


def _write_begin(
    path: str,
    file_system: FileSystem,
    now_ms: int,
    voters: VoterSet | None,
    records: Sequence[VersionedRecord],
) -> None:
    if voters is not None:
        _write_voters(path, file_system, now_ms, voters)
    content = b"".join(snapshot_parts(records, epoch=0, now_ms=now_ms))
    # There may be credentials in it.
    replace_file(file_system, join(path, BOOTSTRAP_CHECKPOINT), content, is_secret=True)


def _write_voters(path: str, file_system: FileSystem, now_ms: int, voters: VoterSet) -> None:
    folder = metadata_folder(path)
    make_durable_directory(file_system, folder)
    file_system.restrict(folder)
    parts = snapshot_parts(
        [],
        epoch=BOOTSTRAP_SNAPSHOT.epoch,
        now_ms=now_ms,
        head=voter_records(1, voters),
        last_timestamp_ms=now_ms,
    )
    replace_file(file_system, join(folder, snapshot_name(BOOTSTRAP_SNAPSHOT)), b"".join(parts))


# What a person writes


def parse_initial_controllers(text: str, listener_name: str) -> VoterSet:
    """Parses ID@HOST:PORT:DIRECTORY-ID, separated by commas; raises `UserError`.

    Kafka's counterpart: `DynamicVoters.parse`.
    """
    found = [_parse_voter(one, listener_name) for one in text.split(",") if one]
    if not found:
        raise UserError("--initial-controllers names no controller: ID@HOST:PORT:DIRECTORY-ID,...")
    for one, other in combinations(found, 2):
        if one.key.id == other.key.id:
            raise UserError(f"--initial-controllers names the node {one.key.id} twice")
        if one.key.directory_id == other.key.directory_id:
            raise UserError(
                f"--initial-controllers gives {one.key.id} and {other.key.id} the same directory id"
            )
    return VoterSet.of(sorted(found))


def _parse_voter(text: str, listener_name: str) -> Voter:
    node_id, _, rest = text.strip().partition("@")
    address, _, directory_id = rest.rpartition(":")
    try:
        host, port = parse_address(address)
        key = ReplicaKey(int(node_id), parse_uuid(directory_id))
    except (UserError, ValueError) as error:
        raise UserError(
            f"{text}: a controller is ID@HOST:PORT:DIRECTORY-ID, such as "
            "1@localhost:9093:OGRLokAQRR6HDezGVxs-9A (ottla cluster new-id makes an id)"
        ) from error
    if key.id < 0 or is_reserved(key.directory_id):
        raise UserError(f"{text}: a node's id is not negative, and a directory's id is random")
    return Voter(key, (Endpoint(listener_name, host, port),))
