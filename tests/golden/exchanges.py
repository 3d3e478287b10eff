"""What Kafka's brokers said to each other, recorded between three of them."""

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from ottla.codec.schema import Message, reader
from ottla.protocol.headers import RequestHeader, read_request_header, read_response_header
from ottla.protocol.messages import request_class, response_class
from tests.support import SHARED

RECORDED = SHARED / "recorded" / "inter-broker" if SHARED else None
BOOTSTRAP = "../tiered-storage/follower-bootstrap/exchanges.jsonl"
"""How a follower begins with what a tier has of its state."""

FILES = ("exchanges.jsonl", "exchanges-ibp-2.4.jsonl", "txn-marker-retries.jsonl", BOOTSTRAP)


@dataclass(frozen=True, slots=True)
class Exchange:
    """A frame is without its size; `response_frame` is `None` where the connection ended."""

    line: int
    sender: int
    receiver: int
    ms: int
    request_frame: bytes
    response_frame: bytes | None
    moment: str

    @property
    def header(self) -> RequestHeader:
        return read_request_header(self.request_frame)[0]

    @property
    def request(self) -> Any:
        header, position = read_request_header(self.request_frame)
        return whole(
            request_class(header.api_key), header.api_version, self.request_frame, position
        )

    @property
    def response(self) -> Any:
        header = self.header
        assert self.response_frame is not None
        _, position = read_response_header(self.response_frame, header.api_key, header.api_version)
        kind = response_class(header.api_key)
        return whole(kind, header.api_version, self.response_frame, position)


def whole(kind: type[Message], version: int, frame: bytes, position: int) -> Message:
    message, end = reader(kind, version)(frame, position)
    assert end == len(frame)
    return message


@cache
def exchanges(name: str) -> tuple[Exchange, ...]:
    assert RECORDED is not None
    return tuple(_read(name))


def _read(name: str) -> Iterator[Exchange]:
    assert RECORDED is not None
    with (RECORDED / name).open() as lines:
        for number, line in enumerate(lines, 1):
            fields = json.loads(line)
            response = fields["response"]
            yield Exchange(
                line=number,
                sender=fields["from"],
                receiver=fields["to"],
                ms=fields["ms"],
                request_frame=base64.b64decode(fields["request"]),
                response_frame=None if response is None else base64.b64decode(response),
                moment=fields["moment"],
            )
