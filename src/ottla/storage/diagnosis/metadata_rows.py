"""The records of a metadata log for people, without what gives access.

Kafka's counterparts: `DumpLogSegments` with `--cluster-metadata-decoder`, `MetadataNodeRedactor`.
"""

from dataclasses import replace
from typing import Final

from ottla.base.errors import ProtocolError
from ottla.base.resource_kinds import ResourceKind
from ottla.codec.schema import Message
from ottla.config.any_setting import is_sensitive, setting_row
from ottla.metadata.records import ConfigRecord, UserScramCredentialRecord, decode_record
from ottla.storage.diagnosis.rows import RecordRow, Row

HIDDEN: Final = "[hidden]"
SECRETS: Final = frozenset({"salt", "stored_key", "server_key"})


def decoded_metadata(row: Row) -> Row:
    """The row with the record as text; a value that cannot be decoded is not shown."""
    if not isinstance(row, RecordRow) or row.control_type is not None or row.value is None:
        return row
    try:
        record, _ = decode_record(row.value)
        text = _text(record)
    except ProtocolError as error:
        text = f"not a metadata record: {error}"
    return replace(row, value=text.encode())


def _text(record: Message) -> str:
    fields = {one.name: getattr(record, one.name) for one in record.FIELDS}
    if isinstance(record, UserScramCredentialRecord):
        fields |= dict.fromkeys(SECRETS, HIDDEN)
    elif (
        isinstance(record, ConfigRecord)
        and record.resource_type == ResourceKind.BROKER
        and record.value is not None
        and is_sensitive(setting_row(record.name))
    ):
        fields["value"] = HIDDEN
    values = ", ".join(f"{name}={value!r}" for name, value in fields.items())
    return f"{type(record).__name__}({values})"
