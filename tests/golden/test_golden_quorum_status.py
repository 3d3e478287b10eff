"""What controllers of Kafka say of their quorum, played by a server as it was recorded."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from click.testing import CliRunner

from ottla.base.errors import RefusalError, UnreachableError
from ottla.base.ids import uuid_text
from ottla.cli.cluster.status import status_command
from ottla.client.administration.quorum_status import quorum_status
from ottla.client.connecting.cluster import DEFAULT_SETTINGS, SocketTransport
from ottla.codec.primitives import Output
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.headers import encode_response, read_request_header
from tests.golden.exchanges import RECORDED, Exchange, exchanges
from tests.support.ports import free_port
from tests.support.threaded_server import ThreadedServer

pytestmark = pytest.mark.skipif(RECORDED is None, reason="no recorded exchanges (OTTLA_SHARED)")

STATIC = "../kraft/exchanges.jsonl"
DYNAMIC = "../kraft/dynamic/exchanges.jsonl"
TRANSPORT = SocketTransport(DEFAULT_SETTINGS)


def told(name: str, api_key: ApiKey) -> list[Exchange]:
    """The exchanges of an API, without Envelopes, in their order."""
    found = [one for one in exchanges(name) if one.header.api_key == api_key]
    return [one for one in found if one.response_frame is not None]


class RecordedController(ThreadedServer):
    """Answers with the recorded bytes, but for the number of the request."""

    def __init__(self, name: str, quorum: Exchange) -> None:
        self._versions = told(name, ApiKey.API_VERSIONS)[0].response
        self._frames = {
            ApiKey.DESCRIBE_QUORUM: quorum.response_frame,
            ApiKey.DESCRIBE_CLUSTER: told(name, ApiKey.DESCRIBE_CLUSTER)[0].response_frame,
        }
        super().__init__()
        self.address = ("127.0.0.1", self.port)

    def serve(self, peer: socket.socket) -> None:
        with peer.makefile("rb") as frames:
            while size := frames.read(4):
                header, _ = read_request_header(frames.read(int.from_bytes(size, "big")))
                if header.api_key == ApiKey.API_VERSIONS:
                    output = Output()
                    encode_response(header, self._versions, output)
                    peer.sendall(output.read_all())
                    continue
                frame = self._frames[ApiKey(header.api_key)]
                assert frame is not None
                number = header.correlation_id.to_bytes(4, "big")
                peer.sendall(len(frame).to_bytes(4, "big") + number + frame[4:])


@contextmanager
def controllers(name: str, *quorums: Exchange) -> Iterator[list[RecordedController]]:
    servers = [RecordedController(name, one) for one in quorums]
    try:
        yield servers
    finally:
        for one in servers:
            one.close()


def is_of_leader(exchange: Exchange) -> bool:
    return not exchange.response.topics[0].partitions[0].error_code


def leaders(name: str) -> list[Exchange]:
    return [one for one in told(name, ApiKey.DESCRIBE_QUORUM) if is_of_leader(one)]


def others(name: str) -> list[Exchange]:
    return [one for one in told(name, ApiKey.DESCRIBE_QUORUM) if not is_of_leader(one)]


def test_a_dynamic_quorum_is_told_with_directories_and_addresses() -> None:
    with controllers(DYNAMIC, leaders(DYNAMIC)[-1]) as (one,):
        status = quorum_status([one.address], TRANSPORT)
    assert (status.leader, status.epoch, status.high_watermark) == (101, 5, 130)
    assert [(x.node, x.is_voter, x.lag, x.address) for x in status.replicas] == [
        (101, True, 0, ("localhost", 26983)),
        (103, True, 0, ("localhost", 31223)),
        (102, False, 0, None),
        (1, False, 0, None),
    ]
    directory = status.replicas[0].directory_id
    assert directory is not None
    assert uuid_text(directory) == "NYzn5W2RtDFOkFI75Y2yxw"


def test_whoever_does_not_lead_is_passed_over() -> None:
    with controllers(STATIC, others(STATIC)[0], leaders(STATIC)[0]) as (other, leader):
        status = quorum_status([other.address, leader.address], TRANSPORT)
    assert (len(status.voters), status.silent) == (3, ())
    assert {one.directory_id for one in status.voters} == {None}


def test_a_quorum_without_a_leader_is_named_so() -> None:
    """The others that the controller names are not there any more."""
    with (
        controllers(STATIC, others(STATIC)[0]) as (one,),
        pytest.raises(RefusalError, match="no controller leads the quorum"),
    ):
        quorum_status([one.address], TRANSPORT)
    with pytest.raises(UnreachableError):
        quorum_status([("127.0.0.1", free_port())], TRANSPORT)


def test_the_command_shows_the_quorum() -> None:
    with controllers(DYNAMIC, leaders(DYNAMIC)[-1]) as (one,):
        place = f"127.0.0.1:{one.port}"
        shown = CliRunner().invoke(status_command, [place, "--controllers"])
        assert (shown.exit_code, shown.exception) == (0, None)
        assert "node 101 leads epoch 5: 2 voters, 2 observers" in shown.output
        lines = CliRunner().invoke(status_command, [place, "--controllers", "--json"]).output
    objects = [json.loads(line) for line in lines.splitlines()]
    assert [one["type"] for one in objects] == ["quorum", "voter", "voter", "observer", "observer"]
    assert objects[0]["high_watermark"] == 130
