"""Every message in every version, as bytes of ours for others to read."""

import random
from collections.abc import Iterator

from ottla.codec.primitives import Output
from ottla.codec.schema import Message, reader, writer
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages import DECLARED, request_class, response_class
from tests.support.random_messages import random_message

APIS = sorted(DECLARED)
SAMPLES = 6


def versions_of(api_key: ApiKey) -> Iterator[tuple[type[Message], int]]:
    """Both messages of an API, in each of their versions."""
    for message in (request_class(api_key), response_class(api_key)):
        for version in range(message.VERSIONS.first, message.VERSIONS.last + 1):
            yield message, version


def samples(message: type[Message], version: int) -> Iterator[tuple[Message, bytes]]:
    for seed in range(SAMPLES):
        made = random_message(message, version, random.Random(seed))
        yield made, encoded(made, version)


def encoded(message: Message, version: int) -> bytes:
    output = Output()
    writer(type(message), version)(message, output)
    return output.read_all()


def decoded(message: type[Message], version: int, data: bytes) -> Message:
    value, position = reader(message, version)(data, 0)
    assert position == len(data)
    return value
