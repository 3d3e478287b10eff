"""The identity of a log directory: cluster, node, and the directory's own id.

Format: docs/format/meta-properties.md. A broker refuses a directory of another cluster or node. A
crash leaves the complete old or new file. Kafka's counterparts: `MetaProperties`,
`PropertiesUtils`, and `java.util.Properties` for the text.
"""

import logging
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, join, read_file, replace_file
from ottla.base.ids import Uuid, parse_uuid, uuid_text
from ottla.base.values import dataclass
from ottla.storage.files.checksummed import is_one_bit_apart, read_checksummed, with_checksum
from ottla.storage.files.filenames import COPIED_META_PROPERTIES, META_PROPERTIES
from ottla.storage.files.java_properties import parse_properties, properties_line

logger = logging.getLogger(__name__)

VERSION_ZOOKEEPER = 0
"""A broker of a ZooKeeper cluster: `broker.id`."""
VERSION_KRAFT = 1
"""A node of a KRaft cluster: `node.id`."""

KEY_ORDER = ("node.id", "broker.id", "directory.id", "version", "cluster.id")
"""The order in which Java's hash table, with 16 buckets, iterates over these keys."""

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

INT32_MAX = (1 << 31) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """The fields of `meta.properties`; `None` where the file has none."""

    version: int = VERSION_KRAFT
    cluster_id: str | None = None
    node_id: int | None = None
    """`broker.id` in version 0."""
    directory_id: Uuid | None = None
    """Distinguishes the directories of one broker (KIP-858)."""


def read_meta_properties(file_system: FileSystem, path: str) -> MetaProperties | None:
    """Returns the content; `None` without the file. Raises `CorruptionError`."""
    try:
        content = read_file(file_system, path)
    except FileNotFoundError:
        return None
    return _parsed(path, content)


def properties_of(file_system: FileSystem, directory: str) -> MetaProperties | None:
    """Reads a directory's file, or its copy if the file is lost or has a flipped bit.

    Returns `None` if both are missing; raises `CorruptionError`, as `read_meta_properties`.
    """
    path = join(directory, META_PROPERTIES)
    if file_system.status(path) is not None and not has_flipped_bit(file_system, directory):
        return read_meta_properties(file_system, path)
    copy = read_checksummed(file_system, join(directory, COPIED_META_PROPERTIES), _as_it_is)
    return None if copy is None else _parsed(path, copy)


def first_properties(paths: Iterable[str], file_system: FileSystem) -> MetaProperties | None:
    """The identity in the first directory that has one; opening the directories compares all of
    them. Raises `CorruptionError` where none can be read, and one is damaged.
    """
    damage: CorruptionError | None = None
    for path in paths:
        try:
            found = properties_of(file_system, path)
        except CorruptionError as error:
            damage = damage or error
            continue
        except OSError:
            continue  # reported when the directory is opened
        if found is not None:
            return found
    if damage is not None:
        raise damage
    return None


def lost_properties_mend(file_system: FileSystem, directory: str) -> str:
    """What to do about a directory whose file is lost."""
    copy = join(directory, COPIED_META_PROPERTIES)
    if file_system.status(copy) is not None:
        return f"restore it from {copy}, which has its content and one more line, a checksum"
    return (
        f"restore it, or its copy, {COPIED_META_PROPERTIES}, with node.id, cluster.id and "
        "directory.id"
    )


def write_meta_properties(
    file_system: FileSystem, path: str, properties: MetaProperties, *, now_ms: int
) -> None:
    """Replaces the file with what Kafka would write at that time in UTC."""
    lines = ["#", f"#{java_date(now_ms)}"]
    lines += [properties_line(key, value) for key, value in _to_fields(properties)]
    replace_file(file_system, path, "".join(f"{line}\n" for line in lines).encode("latin-1"))


def copy_meta_properties(file_system: FileSystem, directory: str) -> None:
    """Writes a checksummed copy of a directory's file, unless the copy is current."""
    path = join(directory, COPIED_META_PROPERTIES)
    content = read_file(file_system, join(directory, META_PROPERTIES))
    if read_checksummed(file_system, path, _as_it_is) != content:
        replace_file(file_system, path, with_checksum(content))


def has_flipped_bit(file_system: FileSystem, directory: str) -> bool:
    """Whether a directory's file differs by one bit from its copy, which has a checksum.

    A program that writes new ids changes more bits. A person may change one digit, but then the
    file is newer than the copy; a flipped bit on disk does not change the modification time.
    """
    return _as_it_was(file_system, directory) is not None


def repair_meta_properties(file_system: FileSystem, directory: str) -> None:
    """Restores a flipped bit, which no other check would detect."""
    copy = _as_it_was(file_system, directory)
    if copy is not None:
        path = join(directory, META_PROPERTIES)
        logger.warning("%s has a flipped bit; restored the file from its copy", path)
        replace_file(file_system, path, copy)


def _as_it_was(file_system: FileSystem, directory: str) -> bytes | None:
    """Returns the copy of a directory's file if a bit of the file has flipped since."""
    path = join(directory, META_PROPERTIES)
    copy_path = join(directory, COPIED_META_PROPERTIES)
    copy = read_checksummed(file_system, copy_path, _as_it_is)
    status, copy_status = file_system.status(path), file_system.status(copy_path)
    if copy is None or status is None or copy_status is None:
        return None
    if status.modified_ms > copy_status.modified_ms:
        return None
    return copy if is_one_bit_apart(read_file(file_system, path), copy) else None


def _as_it_is(_: str, content: bytes) -> bytes:
    return content


def java_date(now_ms: int) -> str:
    """Formats a time like `java.util.Date.toString` in UTC, in English."""
    at = datetime.fromtimestamp(now_ms // 1000, UTC)
    return f"{DAYS[at.weekday()]} {MONTHS[at.month - 1]} {at:%d %H:%M:%S} UTC {at.year:04d}"


def _parsed(path: str, content: bytes) -> MetaProperties:
    try:
        return _from_fields(parse_properties(content.decode("latin-1")))
    except ValueError as error:
        raise CorruptionError(path, 0, str(error)) from error


def _from_fields(fields: dict[str, str]) -> MetaProperties:
    version = _number(fields, "version")
    if version not in (VERSION_ZOOKEEPER, VERSION_KRAFT):
        raise ValueError(f"version {fields.get('version', '(none)')} is not known")
    node_key = "node.id" if version == VERSION_KRAFT else "broker.id"
    node_id = _number(fields, node_key)
    cluster_id = fields.get("cluster.id")
    if version == VERSION_KRAFT and (node_id is None or cluster_id is None):
        raise ValueError("there is no node.id or no cluster.id")
    if node_id is None and cluster_id is None:
        raise ValueError("there is neither a broker.id nor a cluster.id")
    directory_id = fields.get("directory.id")
    return MetaProperties(
        version=version,
        cluster_id=cluster_id,
        node_id=node_id,
        directory_id=None if directory_id is None else parse_uuid(directory_id),
    )


def _number(fields: dict[str, str], key: str) -> int | None:
    text = fields.get(key)
    if text is None:
        return None
    if re.fullmatch(r"[0-9]{1,10}", text) is None or int(text) > INT32_MAX:
        raise ValueError(f"{key} is {text!r}, which is not a valid number")
    return int(text)


def _to_fields(properties: MetaProperties) -> Iterator[tuple[str, str]]:
    is_kraft = properties.version == VERSION_KRAFT
    fields: dict[str, object] = {
        "version": properties.version,
        "node.id" if is_kraft else "broker.id": properties.node_id,
        "cluster.id": properties.cluster_id,
        "directory.id": properties.directory_id and uuid_text(properties.directory_id),
    }
    for key in KEY_ORDER:
        value = fields.get(key)
        if value is not None:
            yield key, str(value)
