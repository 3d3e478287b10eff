"""The topic id that a partition's directory belongs to. Format: docs/format/partition-metadata.md

It distinguishes a directory of a deleted topic from one of a new topic of the same name (KIP-516).
A crash leaves it missing or whole. Kafka's counterpart: `PartitionMetadataFile`.
"""

from dataclasses import replace

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, read_file, replace_file
from ottla.base.ids import ZERO_UUID, Uuid, parse_uuid, uuid_text
from ottla.base.patterns import lazy_pattern
from ottla.storage.files.checksummed import is_one_bit_apart
from ottla.storage.files.filenames import INTEGRITY
from ottla.storage.findings import Finding, FindingKind, finding_of

_CONTENT = lazy_pattern(rb"version:\s+(-?[0-9]{1,10})\r?\ntopic_id:\s+([!-~]+)\s*")


def read_topic_id(file_system: FileSystem, path: str) -> Uuid | None:
    """The topic's id; `None` without the file. Raises `CorruptionError`."""
    try:
        content = read_file(file_system, path)
    except FileNotFoundError:
        return None
    match = _CONTENT.fullmatch(content)
    if match is None:
        raise CorruptionError(path, 0, "is not a version and a topic id")
    if int(match[1]) != 0:
        raise CorruptionError(path, match.start(1), f"version {int(match[1])} is not known")
    try:
        topic_id = parse_uuid(match[2].decode("ascii"))
    except ValueError as error:
        raise CorruptionError(path, match.start(2), str(error)) from error
    if topic_id == ZERO_UUID:
        raise CorruptionError(path, match.start(2), "the topic id is zero")
    if uuid_text(topic_id).encode() != match[2]:
        raise CorruptionError(path, match.start(2), "the topic id is not as Kafka writes it")
    return topic_id


def judge_topic_id(
    file_system: FileSystem, path: str, recorded: Uuid | None
) -> tuple[Uuid | None, Finding | None]:
    """The topic's id, and what is wrong with the file, given the id in the integrity file.

    The finding has the id with which the file may be written again, if that is known. Without it
    nothing shows which of the two files is wrong, and the id is `None`.
    """
    try:
        topic_id = read_topic_id(file_system, path)
    except CorruptionError as error:
        found = finding_of(FindingKind.PARTITION_METADATA, error)
        return recorded, replace(found, topic_id=recorded)
    if recorded is None or topic_id is None or topic_id == recorded:
        return topic_id or recorded, None
    right: Uuid | None = None
    if is_id_with_flipped_bit(file_system, path, recorded):
        reason, right = f"differs by one bit from the id in {INTEGRITY}", recorded
    else:
        reason = f"has id {uuid_text(topic_id)}, but {INTEGRITY} has {uuid_text(recorded)}"
        reason += "; remove the file that is wrong"
    kind = FindingKind.PARTITION_METADATA
    return right, Finding(kind=kind, path=path, position=None, reason=reason, topic_id=right)


def is_id_with_flipped_bit(file_system: FileSystem, path: str, topic_id: Uuid) -> bool:
    """Whether the file differs by one bit from that of a topic; other topics differ by more."""
    try:
        found = read_file(file_system, path)
    except FileNotFoundError:
        return False
    return is_one_bit_apart(found, topic_id_content(topic_id))


def write_topic_id(file_system: FileSystem, path: str, topic_id: bytes) -> None:
    assert topic_id != ZERO_UUID
    replace_file(file_system, path, topic_id_content(topic_id))


def topic_id_content(topic_id: bytes) -> bytes:
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode()
