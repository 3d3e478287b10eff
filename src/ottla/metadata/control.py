"""The control records of raft and of snapshots in the metadata log.

Format page: docs/format/cluster-metadata.md. Kafka's counterparts: `ControlRecordUtils`,
`LeaderChangeMessage` (KIP-595), `SnapshotHeaderRecord` (KIP-630), `VotersRecord` (KIP-853).

The value begins with its own version, which is also the message's first field.
"""

from typing import Final

from ottla.base.errors import ProtocolError
from ottla.base.files import Buffer
from ottla.base.ids import Uuid
from ottla.codec.fields import array, int16, int32, int64, nested, string, uint16, uuid
from ottla.codec.primitives import Output
from ottla.codec.schema import Message, Struct, reader, writer
from ottla.codec.versioned import version_of
from ottla.record.control import KEY, ControlRecordType


class LeaderChangeVoter(Struct):
    voter_id: int = int32("0+")
    voter_directory_id: Uuid = uuid("1+")


class LeaderChangeMessage(Message, versions="0-1", flexible="0+"):
    """The first record of a leader's epoch."""

    version: int = int16("0+")
    leader_id: int = int32("0+")
    voters: list[LeaderChangeVoter] = array(LeaderChangeVoter, "0+")
    granting_voters: list[LeaderChangeVoter] = array(LeaderChangeVoter, "0+")


class SnapshotHeaderRecord(Message, versions="0", flexible="0+"):
    """The first record of a snapshot."""

    version: int = int16("0+")
    last_contained_log_timestamp: int = int64("0+")


class SnapshotFooterRecord(Message, versions="0", flexible="0+"):
    """The last record of a snapshot; without it a snapshot is incomplete."""

    version: int = int16("0+")


class KRaftVersionRecord(Message, versions="0", flexible="0+"):
    version: int = int16("0+")
    kraft_version: int = int16("0+")


class VoterEndpoint(Struct):
    name: str = string("0+")
    host: str = string("0+")
    port: int = uint16("0+")


class KRaftVersionFeature(Struct):
    min_supported_version: int = int16("0+")
    max_supported_version: int = int16("0+")


class Voter(Struct):
    voter_id: int = int32("0+")
    voter_directory_id: Uuid = uuid("0+")
    endpoints: list[VoterEndpoint] = array(VoterEndpoint, "0+")
    kraft_version_feature: KRaftVersionFeature = nested(KRaftVersionFeature, "0+")


class VotersRecord(Message, versions="0", flexible="0+"):
    version: int = int16("0+")
    voters: list[Voter] = array(Voter, "0+")


CONTROL_RECORDS: Final[dict[ControlRecordType, type[Message]]] = {
    ControlRecordType.LEADER_CHANGE: LeaderChangeMessage,
    ControlRecordType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlRecordType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlRecordType.KRAFT_VERSION: KRaftVersionRecord,
    ControlRecordType.KRAFT_VOTERS: VotersRecord,
}
KINDS: Final = {message: kind for kind, message in CONTROL_RECORDS.items()}


def control_key(record: Message) -> bytes:
    """The key of a control record: version 0, and its type."""
    return KEY.pack(0, KINDS[type(record)])


def encode_control_record(record: Message) -> bytes:
    """The value of a control record, in the version of its `version` field."""
    output = Output()
    version: int = record.version  # type: ignore[attr-defined]
    writer(type(record), version)(record, output)
    return bytes(output.data)


def decode_control_record(kind: ControlRecordType, value: Buffer) -> Message:
    """The control record in a value; raises `ProtocolError` if invalid or of an unknown version."""
    message = CONTROL_RECORDS.get(kind)
    if message is None:
        raise ProtocolError(f"a metadata log has no {kind.name} records")
    version = version_of(value)
    if version not in message.VERSIONS:
        raise ProtocolError(f"{message.__name__} of version {version} is not known here")
    record, end = reader(message, version)(value, 0)
    if end != len(value):
        raise ProtocolError(f"{message.__name__}: {len(value) - end} bytes are left over")
    return record
