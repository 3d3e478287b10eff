"""Controllers of Kafka, played by a server with the bytes that were recorded."""

import socket
from collections.abc import Mapping

from ottla.codec.primitives import Output
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.headers import RequestHeader, encode_response, read_request_header
from tests.golden.exchanges import Exchange, exchanges
from tests.support.threaded_server import ThreadedServer

STATIC = "../kraft/exchanges.jsonl"
DYNAMIC = "../kraft/dynamic/exchanges.jsonl"


def told(name: str, api_key: ApiKey) -> list[Exchange]:
    """The exchanges of an API, without Envelopes, in their order."""
    found = [one for one in exchanges(name) if one.header.api_key == api_key]
    return [one for one in found if one.response_frame is not None]


class RecordedController(ThreadedServer):
    """Answers with the recorded bytes, but for the number of the request.

    What no frame is given for is never answered: the connection is cut.
    """

    def __init__(
        self,
        name: str,
        frames: Mapping[ApiKey, bytes | None],
        versions: Exchange | None = None,
    ) -> None:
        self._versions = (versions or told(name, ApiKey.API_VERSIONS)[0]).response
        self._frames = {
            ApiKey.DESCRIBE_CLUSTER: told(name, ApiKey.DESCRIBE_CLUSTER)[0].response_frame,
            **frames,
        }
        super().__init__()
        self.address = ("127.0.0.1", self.port)

    def serve(self, peer: socket.socket) -> None:
        with peer.makefile("rb") as frames:
            while size := frames.read(4):
                asked = frames.read(int.from_bytes(size, "big"))
                header, _ = read_request_header(asked)
                frame = self.frame_for(header, asked)
                if frame is None:
                    return
                number = header.correlation_id.to_bytes(4, "big")
                peer.sendall(len(frame).to_bytes(4, "big") + number + frame[4:])

    def frame_for(self, header: RequestHeader, asked: bytes) -> bytes | None:
        """The answer to a request, or `None` to say no more."""
        if header.api_key == ApiKey.API_VERSIONS:
            output = Output()
            encode_response(header, self._versions, output)
            return output.read_all()[4:]
        return self._frames.get(ApiKey(header.api_key))
