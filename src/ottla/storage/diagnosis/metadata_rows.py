"""The records of a metadata log for people, without what gives access.

Kafka's counterpart: `DumpLogSegments` with `--cluster-metadata-decoder`.
"""

from dataclasses import replace

from ottla.base.errors import ProtocolError
from ottla.metadata.records import decode_record
from ottla.metadata.showing import record_text
from ottla.storage.diagnosis.rows import RecordRow, Row


def decoded_metadata(row: Row) -> Row:
    """The row with the record as text; a value that cannot be decoded is not shown."""
    if not isinstance(row, RecordRow) or row.control_type is not None or row.value is None:
        return row
    try:
        record, _ = decode_record(row.value)
        text = record_text(record)
    except ProtocolError as error:
        text = f"not a metadata record: {error}"
    return replace(row, value=text.encode())
