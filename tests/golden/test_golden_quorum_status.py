"""What controllers of Kafka say of their quorum, played by a server as it was recorded."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from click.testing import CliRunner

from ottla.base.addresses import address_text
from ottla.base.errors import RefusalError, UnreachableError
from ottla.base.ids import uuid_text
from ottla.cli.cluster.status import status_command
from ottla.client.administration.quorum_status import quorum_status
from ottla.client.connecting.cluster import DEFAULT_SETTINGS, SocketTransport
from ottla.protocol.api_keys import ApiKey
from tests.golden.exchanges import RECORDED, Exchange
from tests.golden.recorded_controllers import DYNAMIC, STATIC, RecordedController, told
from tests.support.ports import free_port

pytestmark = pytest.mark.skipif(RECORDED is None, reason="no recorded exchanges (OTTLA_SHARED)")

TRANSPORT = SocketTransport(DEFAULT_SETTINGS)


@contextmanager
def controllers(name: str, *quorums: Exchange) -> Iterator[list[RecordedController]]:
    servers = [
        RecordedController(name, {ApiKey.DESCRIBE_QUORUM: one.response_frame}) for one in quorums
    ]
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
        pytest.raises(RefusalError, match="no controller leads the quorum") as refused,
    ):
        quorum_status([one.address], TRANSPORT)
    assert f"{address_text(*one.address)} does not lead" in str(refused.value)
    assert str(refused.value).count("does not answer") == 3
    assert "a majority (2 of 3) of the voters must be up" in str(refused.value)
    with pytest.raises(UnreachableError):
        quorum_status([("127.0.0.1", free_port())], TRANSPORT)


def test_a_controller_that_takes_connections_and_answers_none_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ottla.client.administration.quorum_status.PATIENCE_S", 0.05)
    with (
        socket.create_server(("127.0.0.1", 0)) as stopped,
        controllers(DYNAMIC, leaders(DYNAMIC)[-1]) as (one,),
    ):
        places = f"127.0.0.1:{stopped.getsockname()[1]},127.0.0.1:{one.port}"
        shown = CliRunner().invoke(status_command, [places, "--controllers"])
    assert (shown.exit_code, shown.exception) == (0, None)
    assert "node 101 leads epoch 5" in shown.output


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
