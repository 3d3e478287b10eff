"""Groups over sockets: who waits for whom, and what the server's clock ends."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.sync_group import SyncGroupRequest
from ottla.server.network.listener import Server
from tests.support.serving import WireClient, open_broker, serving

SESSION_MS = 500
LONG_MS = 20_000


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    broker = open_broker(
        tmp_path / "data",
        group_initial_rebalance_delay_ms="0",
        group_min_session_timeout_ms="1",
        offsets_topic_num_partitions="1",
    )
    with serving(broker) as server:
        yield server


def join_request(member_id: str = "", session_timeout_ms: int = LONG_MS) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=LONG_MS,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def stable(client: WireClient, session_timeout_ms: int = LONG_MS) -> Any:
    joined = client.ask(join_request(session_timeout_ms=session_timeout_ms), 3)
    assert joined.error_code == 0
    sync = SyncGroupRequest(
        group_id="g", generation_id=joined.generation_id, member_id=joined.member_id
    )
    assert client.ask(sync, 3).error_code == 0
    return joined


def test_a_member_that_joins_waits_for_the_others(server: Server) -> None:
    with WireClient(server.address) as first, WireClient(server.address) as second:
        joined = stable(first)
        second.send(join_request(), 3)
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=joined.member_id)
        while first.ask(beat, 3).error_code == 0:
            pass
        assert first.ask(beat, 3).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        again = first.ask(join_request(joined.member_id), 3)
        answer = second.receive(ApiKey.JOIN_GROUP, 3)
        assert (again.generation_id, answer.generation_id) == (2, 2)
        assert len(again.members) == 2


@pytest.mark.slow
def test_a_member_that_joins_waits_no_longer_than_the_session_of_who_is_gone(
    server: Server,
) -> None:
    with WireClient(server.address) as first:
        stable(first, SESSION_MS)
    with WireClient(server.address) as second:
        answer = second.ask(join_request(), 3)
        assert (answer.error_code, answer.generation_id) == (0, 2)
        assert len(answer.members) == 1


def test_a_client_that_hangs_up_while_it_joins_leaves_the_others_be(server: Server) -> None:
    with WireClient(server.address) as first, WireClient(server.address) as third:
        joined = stable(first)
        with WireClient(server.address) as second:
            second.send(join_request(), 3)
            third.send(join_request(), 3)
            third.socket.settimeout(0.05)
            with pytest.raises(TimeoutError):
                third.receive_frame()
        third.socket.settimeout(LONG_MS / 1000)
        assert first.ask(join_request(joined.member_id), 3).error_code == 0
        assert third.receive(ApiKey.JOIN_GROUP, 3).error_code == 0
