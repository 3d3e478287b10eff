"""What brokers of Kafka passed on to controllers, read and written again as the same bytes."""

import json
from base64 import b64decode
from collections.abc import Iterator

import pytest

from ottla.base.principal import ANONYMOUS
from ottla.codec.primitives import Output
from ottla.codec.schema import reader, writer
from ottla.protocol.api_keys import FORWARDED, ApiKey
from ottla.protocol.headers import (
    encode_request,
    encode_response,
    read_request_header,
    read_response_header,
)
from ottla.protocol.messages import request_class, response_class
from ottla.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.protocol.principal_data import decode_principal, encode_principal
from tests.golden.test_golden_kraft_logs import LOGS, RECORDED

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not LOGS, reason="needs the shared directories"),
]


def recorded() -> Iterator[tuple[bytes, bytes]]:
    """The body of each Envelope and of its response."""
    for path in (RECORDED / "exchanges.jsonl", RECORDED / "dynamic" / "exchanges.jsonl"):
        with path.open() as lines:
            for line in lines:
                if '"api_key":58' not in line.replace(" ", ""):
                    continue
                one = json.loads(line)
                if one["response"] is None:
                    continue
                request, response = b64decode(one["request"]), b64decode(one["response"])
                _, position = read_request_header(request)
                _, start = read_response_header(response, ApiKey.ENVELOPE, 0)
                yield request[position:], response[start:]


def _written(message: EnvelopeRequest | EnvelopeResponse) -> bytes:
    output = Output()
    writer(type(message), 0)(message, output)
    return output.read_all()


def test_every_recorded_envelope_is_read_and_written_as_it_was() -> None:
    keys = set()
    for request, response in recorded():
        sent, end = reader(EnvelopeRequest, 0)(request, 0)
        assert end == len(request)
        assert _written(sent) == request
        principal, is_by_token = decode_principal(sent.request_principal or b"")
        assert (principal, is_by_token) == (ANONYMOUS, False)
        assert encode_principal(principal, is_by_token=is_by_token) == sent.request_principal

        header, position = read_request_header(sent.request_data)
        keys.add(header.api_key)
        inner, end = reader(request_class(header.api_key), header.api_version)(
            sent.request_data, position
        )
        assert end == len(sent.request_data)
        output = Output()
        encode_request(header, inner, output)
        assert output.read_all()[4:] == sent.request_data

        answered, end = reader(EnvelopeResponse, 0)(response, 0)
        assert end == len(response)
        assert _written(answered) == response
        if answered.response_data is None:
            assert answered.error_code
            continue
        _, position = read_response_header(
            answered.response_data, header.api_key, header.api_version
        )
        reply, end = reader(response_class(header.api_key), header.api_version)(
            answered.response_data, position
        )
        assert end == len(answered.response_data)
        output = Output()
        encode_response(header, reply, output)
        assert output.read_all()[4:] == answered.response_data

    assert keys <= FORWARDED
    assert len(keys) > 10
