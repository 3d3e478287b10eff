"""The headers of requests and responses, and complete frames.

A request begins with its API key and version, a correlation id that its response repeats, and the
client id. From the API's first flexible version on, tagged fields follow (header version 2, and 1
for responses). Two exceptions: ControlledShutdown version 0 has no client id, and the response to
ApiVersions never has tagged fields. Format: docs/format/wire.md.

Kafka's counterparts: `RequestHeader`, `ResponseHeader`, `ApiKeys.requestHeaderVersion`.
"""

from struct import Struct
from struct import error as StructError  # noqa: N812

from ottla.base.errors import ProtocolError
from ottla.base.files import Buffer
from ottla.base.values import dataclass
from ottla.codec.primitives import Output, skip_tagged_fields
from ottla.codec.schema import Message, writer
from ottla.protocol.api_keys import FIRST_FLEXIBLE_VERSIONS, ApiKey

REQUEST_START = Struct(
    ">h"  # API key
    "h"  # API version
    "i"  # correlation id
    "h"  # size of the client id, -1 for null
)
assert REQUEST_START.size == 10

RESPONSE_START = Struct(
    ">i"  # size of the frame, without itself
    "i"  # correlation id
)
assert RESPONSE_START.size == 8

FRAME_SIZE = Struct(">i")
CLIENT_ID_POSITION = REQUEST_START.size

MAX_HEADER_TAGS = 127
"""The maximum number of tagged fields in a header; clients send none so far."""

_unpack_start = REQUEST_START.unpack_from
_pack_response_start = RESPONSE_START.pack
_API_VERSIONS = int(ApiKey.API_VERSIONS)
_CONTROLLED_SHUTDOWN = int(ApiKey.CONTROLLED_SHUTDOWN)


@dataclass(slots=True, init=False)
class RequestHeader:
    """The header of a request. Not frozen, because one is created for every request."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None

    def __init__(
        self,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str | None = None,
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id

    def in_version(self, api_version: int) -> "RequestHeader":
        """The header for the response to an unsupported version.

        Only ApiVersions is answered then, in version 0 and with UNSUPPORTED_VERSION (KIP-511); for
        other requests Kafka closes the connection.
        """
        return RequestHeader(self.api_key, api_version, self.correlation_id, self.client_id)


def read_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """The header of a request and the position of its body.

    Accepts any version of a known API: unsupported versions are answered, and the header of an
    unknown version is like that of the newest one. Raises `ProtocolError` for an unknown API key or
    a malformed header.
    """
    try:
        api_key, api_version, correlation_id, size = _unpack_start(frame)
        first_flexible = FIRST_FLEXIBLE_VERSIONS[api_key]
        if api_key == _CONTROLLED_SHUTDOWN and api_version == 0:
            return RequestHeader(api_key, api_version, correlation_id), CLIENT_ID_POSITION - 2
        position = CLIENT_ID_POSITION
        client_id = None
        if size >= 0:
            position += size
            if position > len(frame):
                raise ProtocolError("a request header is cut short")
            client_id = str(frame[CLIENT_ID_POSITION:position], "utf-8")
        elif size != -1:
            raise ProtocolError(f"a client id of {size} bytes")
        if api_version >= first_flexible:
            tags = frame[position]
            position += 1
            if tags > MAX_HEADER_TAGS:
                raise ProtocolError("a request header has more than 127 tagged fields")
            if tags:
                position = skip_tagged_fields(frame, position, tags)
    except KeyError as error:
        raise ProtocolError(f"there is no API with key {error}") from error
    except (StructError, IndexError, ValueError) as error:
        raise ProtocolError(f"a request header is malformed: {error}") from error
    return RequestHeader(api_key, api_version, correlation_id, client_id), position


def encode_response(header: RequestHeader, response: Message, output: Output) -> None:
    """Appends the response to a request as a complete frame.

    If the version cannot carry the response (`ApiError`), or a value cannot be encoded, nothing is
    appended: the client would take half a frame for the next response.
    """
    version = header.api_version
    data = output.data
    start = len(data)
    size_before = output.size
    data += _pack_response_start(0, header.correlation_id)
    if version >= FIRST_FLEXIBLE_VERSIONS[header.api_key] and header.api_key != _API_VERSIONS:
        data.append(0)
    _write_message(response, version, output, start)
    FRAME_SIZE.pack_into(data, start, output.size - size_before - FRAME_SIZE.size)


def _write_message(message: Message, version: int, output: Output, start: int) -> None:
    slice_count = len(output.slices)
    write = message.WRITERS.get(version)
    try:
        if write is None:
            write = writer(type(message), version)
        write(message, output)
    except BaseException:
        output.cut_back(start, slice_count)
        raise


def encode_request(header: RequestHeader, request: Message, output: Output) -> None:
    """Appends a request as a complete frame, for clients."""
    data = output.data
    start = len(data)
    size_before = output.size
    name = None if header.client_id is None else header.client_id.encode()
    data += bytes(FRAME_SIZE.size)
    data += REQUEST_START.pack(
        header.api_key,
        header.api_version,
        header.correlation_id,
        -1 if name is None else len(name),
    )
    data += name or b""
    if header.api_version >= FIRST_FLEXIBLE_VERSIONS[header.api_key]:
        data.append(0)
    _write_message(request, header.api_version, output, start)
    FRAME_SIZE.pack_into(data, start, output.size - size_before - FRAME_SIZE.size)


def read_response_header(frame: Buffer, api_key: int, api_version: int) -> tuple[int, int]:
    """The correlation id of a response and the position of its body; raises `ProtocolError`."""
    try:
        (correlation_id,) = FRAME_SIZE.unpack_from(frame)
        position = FRAME_SIZE.size
        if api_version >= FIRST_FLEXIBLE_VERSIONS[api_key] and api_key != _API_VERSIONS:
            position = skip_tagged_fields(frame, position + 1, frame[position])
    except (StructError, IndexError, ValueError) as error:
        raise ProtocolError(f"a response header is malformed: {error}") from error
    return correlation_id, position
