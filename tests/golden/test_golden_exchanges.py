"""Every request and answer between Kafka's brokers is read, and written as the same bytes."""

import pytest

from ottla.codec.primitives import Output
from ottla.config.inter_broker_version import parse_inter_broker_version
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.headers import FRAME_SIZE, encode_request, encode_response
from ottla.protocol.inter_broker_requests import SENT_VERSIONS, sent_version
from tests.golden.exchanges import BOOTSTRAP, FILES, RECORDED, exchanges

pytestmark = pytest.mark.skipif(RECORDED is None, reason="no recorded exchanges")


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_every_recorded_exchange_is_written_as_kafka_wrote_it(name: str) -> None:
    for one in exchanges(name):
        header, output = one.header, Output()
        encode_request(header, one.request, output)
        assert output.read_all()[FRAME_SIZE.size :] == one.request_frame, one.line
        if one.response_frame is not None:
            output = Output()
            encode_response(header, one.response, output)
            assert output.read_all()[FRAME_SIZE.size :] == one.response_frame, one.line


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text"),
    [("exchanges.jsonl", "3.9"), ("exchanges-ibp-2.4.jsonl", "2.4"), (BOOTSTRAP, "3.9")],
)
def test_kafka_sends_the_versions_that_the_table_says(name: str, text: str) -> None:
    version = parse_inter_broker_version(text)
    seen = {(one.header.api_key, one.header.api_version) for one in exchanges(name)}
    ours = {(key, sent_version(key, version)) for key in SENT_VERSIONS}
    not_in_the_table = {ApiKey.API_VERSIONS, ApiKey.ADD_PARTITIONS_TO_TXN}
    assert {pair for pair in seen if pair[0] not in not_in_the_table} <= ours
