"""docs/format/wire.md shows real bytes and real compiled code."""

import re
from pathlib import Path

from ottla.codec.primitives import Output
from ottla.codec.schema_writer import WriterCompiler
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.headers import RequestHeader, encode_request, encode_response
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

PAGE = (Path(__file__).parents[2] / "docs" / "format" / "wire.md").read_text()
HEADER = RequestHeader(ApiKey.HEARTBEAT, 4, 1, "app")


def bytes_after(sentence: str) -> bytes:
    """The first columns of the block of hexadecimal bytes that follows a sentence."""
    block = PAGE.split(sentence, 1)[1].split("```")[1]
    columns = (re.match(r"(?:[0-9a-f]{2} )+", line) for line in block.splitlines())
    return bytes.fromhex("".join(column.group() for column in columns if column))


def test_the_request_on_the_page_is_what_is_sent() -> None:
    output = Output()
    request = HeartbeatRequest(group_id="g", generation_id=3, member_id="m")
    encode_request(HEADER, request, output)
    assert bytes_after('for member "m"') == output.read_all()


def test_the_response_on_the_page_is_what_is_sent() -> None:
    output = Output()
    encode_response(HEADER, HeartbeatResponse(error_code=27), output)
    assert bytes_after("the answer REBALANCE_IN_PROGRESS") == output.read_all()


def test_the_compiled_writer_on_the_page_is_the_real_one() -> None:
    source = WriterCompiler(4, is_flexible=True).message(HeartbeatResponse).text()
    assert f"```python\n{source}```" in PAGE
