"""A round of the loop has time for a part of what there is to do; the next ones do the rest."""

from functools import partial
from pathlib import Path
from selectors import EVENT_READ, SelectorKey
from typing import Any

import pytest

from ottla.base.clock import SystemClock
from ottla.base.timestamps import Timestamps
from ottla.broker.waiting import Waiting
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.record.builder import RecordBatchBuilder
from ottla.server import listener as listener_module
from tests.support.stepping import has_answer, stepped, with_topic

VERSIONS = ApiVersionsRequest()


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round has time for one thing of each kind."""
    monkeypatch.setattr(listener_module, "RECEIVING_S", 0.0)
    monkeypatch.setattr(listener_module, "SETTLING_S", 0.0)


@pytest.mark.usefixtures("hurried")
def test_requests_for_which_a_round_has_no_time_come_first_in_the_next(tmp_path: Path) -> None:
    count = 6
    with stepped(with_topic(tmp_path / "data")) as server:
        clients = [server.client() for _ in range(count)]
        server.step_until(lambda: len(server.server._connections) == count)
        for client in clients:
            client.send(VERSIONS, 0)
        answered: list[int] = []
        before = server.rounds
        while len(answered) < count:
            server.step()
            new = [one for one in range(count) if one not in answered and has_answer(clients[one])]
            assert len(new) <= 1
            answered += new
            if new:  # it has more to ask at once, and waits until the others had their turn
                clients[new[0]].receive(ApiKey.API_VERSIONS, 0)
                clients[new[0]].send(VERSIONS, 0)
            assert server.rounds - before < 3 * count
        assert sorted(answered) == list(range(count))
        for client in clients:
            client.socket.close()


@pytest.mark.usefixtures("hurried")
def test_fetches_that_one_record_wakes_are_answered_over_several_rounds(tmp_path: Path) -> None:
    broker = with_topic(tmp_path / "data")
    fetch = FetchRequest(
        max_wait_ms=60_000,
        min_bytes=1,
        topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition_max_bytes=1000)])],
    )
    with stepped(broker) as server:
        clients = [server.client() for _ in range(5)]
        for client in clients:
            client.send(fetch, 4)
        server.step_until(lambda: broker.waiting_fetch_count == 5)
        builder = RecordBatchBuilder()
        builder.append(None, b"v", 0)
        broker.append(broker.topics.partition("t", 0), bytearray(builder.build()), now_ms=0)
        counts = []
        while counts[-1:] != [5]:
            assert not counts or server.server._has_left, "it does not sleep"
            server.step()
            counts.append(sum(map(has_answer, clients)))
        assert counts == sorted(counts)
        assert len(counts) >= 5
        for client in clients:
            (found,) = client.receive(ApiKey.FETCH, 4).responses[0].partitions
            assert found.records
            client.socket.close()


@pytest.mark.usefixtures("hurried")
def test_idle_connections_are_closed_over_several_rounds(tmp_path: Path) -> None:
    class Later:
        ahead_ms = 0.0

        def now_ms(self) -> int:
            return SystemClock().now_ms()

        def monotonic_ms(self) -> float:
            return SystemClock().monotonic_ms() + self.ahead_ms

    clock = Later()
    with stepped(with_topic(tmp_path / "data"), clock) as server:
        clients = [server.client() for _ in range(5)]
        server.step_until(lambda: len(server.server._connections) == 5)
        clock.ahead_ms = 3_600_000.0
        left = []
        while left[-1:] != [0]:
            server.step()
            left.append(len(server.server._connections))
        assert left[:5] == [4, 3, 2, 1, 0]
        for client in clients:
            assert client.receive_frame() is None
            client.socket.close()


@pytest.mark.usefixtures("hurried")
def test_whose_requests_are_passed_over_has_its_turn_however_the_system_orders_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those who send without a pause stay where they are in the system's order."""
    taken: list[int] = []
    events = [(SelectorKey(one, one, EVENT_READ, one), EVENT_READ) for one in range(1000, 1004)]
    with stepped(with_topic(tmp_path / "data")) as server:
        monkeypatch.setattr(server.server._acceptors, "ready", lambda one, _: taken.append(one))
        for _ in range(3 * len(events)):
            server.server._take(events, Timestamps(now_ms=0, monotonic_ms=0.0))
    assert taken == [*range(1000, 1004)] * 3


@pytest.mark.usefixtures("hurried")
def test_those_who_ask_for_much_at_once_leave_time_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round has time for requests that came before, and for those of others."""
    monkeypatch.setattr(listener_module, "ROUND_S", 0.0)
    with stepped(with_topic(tmp_path / "data")) as server:
        pressing = [server.client() for _ in range(3)]
        quick = server.client()
        server.step_until(lambda: len(server.server._connections) == 4)
        for client in pressing:
            client.socket.sendall(b"".join(client.frame(VERSIONS, 0) for _ in range(50)))
        server.step_until(lambda: len(server.server._ready) == 3)
        quick.send(VERSIONS, 0)
        before = server.rounds
        server.step_until(partial(has_answer, quick))
        assert server.rounds - before <= 2
        for client in (quick, *pressing):
            client.socket.close()


class Done:
    """Work in the background that is done; the wake-up that said so was taken already."""

    def __init__(self, waiting: Waiting[Any]) -> None:
        self._done = [waiting]

    @property
    def has_done(self) -> bool:
        return bool(self._done)

    def take_done(self) -> list[Waiting[Any]]:
        done, self._done = self._done, []
        return done


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("who", ["_background", "membership"])
def test_what_is_done_in_the_background_is_not_slept_over_behind_answers_that_were_left(
    who: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = with_topic(tmp_path / "data")
    with stepped(broker) as stepping:
        server, waiting = stepping.server, Waiting[Any]()
        answered: list[object] = []
        monkeypatch.setattr(server, "_on_answered", answered.append)
        monkeypatch.setattr(broker, who, Done(waiting))
        server._answered.append("what the last round left")
        rounds = 0
        while rounds == 0 or server._has_left:
            server._round(())
            rounds += 1
        monkeypatch.undo()
    assert answered == ["what the last round left", waiting]


@pytest.mark.usefixtures("hurried")
def test_a_connection_that_was_idle_and_asks_before_it_is_closed_stays_open(
    tmp_path: Path,
) -> None:
    with stepped(with_topic(tmp_path / "data")) as stepping:
        server = stepping.server
        clients = [stepping.client() for _ in range(3)]
        stepping.step_until(lambda: len(server._connections) == 3)
        for one in server._connections:
            one.last_active_ms = -1e12
        server._next_idle_check_ms = 0.0
        stepping.step()
        last, _ = server._to_close[-1]
        last.last_active_ms = server._monotonic_ms
        stepping.step_until(lambda: not server._to_close)
        assert server._connections == {last}
        for client in clients:
            client.socket.close()


def test_a_broker_that_is_no_longer_served_does_everything_at_once(tmp_path: Path) -> None:
    broker = with_topic(tmp_path / "data")
    with stepped(broker):
        assert broker.budget.is_limited
    assert not broker.budget.is_limited
