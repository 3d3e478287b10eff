"""Records of internal topics that begin with a frame version, an API key and a version.

Kafka's counterparts: `AbstractApiMessageSerde`, `BytesApiMessageSerde`.
"""

from collections.abc import Mapping
from typing import Final

from ottla.base.errors import ProtocolError
from ottla.base.files import Buffer
from ottla.codec.primitives import Output
from ottla.codec.schema import Message, reader, writer
from ottla.codec.varint import VarintError, read_unsigned_varint, write_unsigned_varint

FRAME_VERSION: Final = 1
"""The only frame version so far (`AbstractApiMessageSerde.DEFAULT_FRAME_VERSION`)."""


class UnknownRecordError(ProtocolError):
    """A record of an unknown type or version."""

    def __init__(self, api_key: int, version: int) -> None:
        super().__init__(f"metadata record {api_key} of version {version} is not known here")
        self.api_key = api_key
        self.version = version


def encode_record(record: Message, version: int = 0) -> bytes:
    """A record's value: frame version, API key, version, and the message of that version."""
    assert record.API_KEY is not None
    output = Output()
    for number in (FRAME_VERSION, record.API_KEY, version):
        write_unsigned_varint(output.data, number)
    writer(type(record), version)(record, output)
    return bytes(output.data)


def decode_api_message(
    value: Buffer, kinds: Mapping[int | None, type[Message]]
) -> tuple[Message, int]:
    """The record in a value, of one of the `kinds` by API key, and its version.

    Unknown tagged fields are skipped, as in all messages (KIP-482). Raises `UnknownRecordError` for
    a type or version of a later Kafka, and `ProtocolError` for an invalid record.
    """
    try:
        frame, position = read_unsigned_varint(value, 0)
        if frame != FRAME_VERSION:
            raise ProtocolError(f"a metadata record has frame version {frame}, not {FRAME_VERSION}")
        api_key, position = read_unsigned_varint(value, position)
        version, position = read_unsigned_varint(value, position)
    except VarintError as error:
        raise ProtocolError(f"a metadata record: {error}") from error
    kind = kinds.get(api_key)
    if kind is None or version not in kind.VERSIONS:
        raise UnknownRecordError(api_key, version)
    record, end = reader(kind, version)(value, position)
    if end != len(value):
        raise ProtocolError(f"{kind.__name__}: {len(value) - end} bytes are left over")
    return record, version
