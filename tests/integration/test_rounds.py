"""A round of the loop has time for a part of what there is to do; the next ones do the rest."""

from pathlib import Path
from selectors import EVENT_READ, SelectorKey
from typing import Any

import pytest

from ottla.base.clock import SystemClock
from ottla.base.timestamps import Timestamps
from ottla.broker.waiting.rooms import Waiting
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.record.builder import RecordBatchBuilder
from ottla.server.network import listener as listener_module
from tests.support.stepping import SteppedServer, readable, stepped, with_topic

VERSIONS = ApiVersionsRequest()


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round has time for one thing of each kind."""
    for limit in ("RECEIVING_S", "SETTLING_S", "ANSWERING_S"):
        monkeypatch.setattr(listener_module, limit, 0.0)


@pytest.mark.usefixtures("hurried")
def test_requests_for_which_a_round_has_no_time_come_first_in_the_next(tmp_path: Path) -> None:
    count = 6
    with stepped(with_topic(tmp_path / "data")) as server:
        clients = [server.client() for _ in range(count)]
        server.step_until(lambda: len(server.server._connections) == count)
        for client in clients:
            client.send(VERSIONS, 0)
        server.await_arrival(*clients)
        waiting = {client.socket: client for client in clients}
        before = server.rounds
        while waiting:
            total = answer_count(server)
            server.step()
            assert server.rounds - before < 3 * count
            if answer_count(server) == total:
                continue
            assert answer_count(server) == total + 1
            (answered,) = readable([client.socket for client in clients])
            client = waiting.pop(answered)
            client.receive(ApiKey.API_VERSIONS, 0)
            client.send(VERSIONS, 0)  # at once, and waits until the others had their turn


def answer_count(server: SteppedServer) -> int:
    """Of the requests for versions. What was sent may not have arrived yet."""
    return sum(server.server.request_counts.of(ApiKey.API_VERSIONS).durations.counts)


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
        server.step_until(lambda: len(broker.fetches.waiting) == 5)
        builder = RecordBatchBuilder()
        builder.append(None, b"v", 0)
        broker.appends.append(broker.topics.partition("t", 0), bytearray(builder.build()), now_ms=0)
        left = []
        while left[-1:] != [0]:
            assert not left or server.server._has_left, "it does not sleep"
            server.step()
            left.append(len(server.server._holding))
        assert left[-5:] == [4, 3, 2, 1, 0]
        for client in clients:
            (found,) = client.receive(ApiKey.FETCH, 4).responses[0].partitions
            assert found.records


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
        server.await_arrival(*pressing)
        server.step_until(lambda: len(server.server._ready) == 3)
        quick.send(VERSIONS, 0)
        server.await_arrival(quick)
        for _ in range(2):
            server.step()
        assert quick.receive(ApiKey.API_VERSIONS, 0).error_code == 0


class Done:
    """Work in the background that is done; the wake-up that said so was taken already."""

    def __init__(self, waiting: Waiting[Any]) -> None:
        self._done = [waiting]

    @property
    def has_answers(self) -> bool:
        return bool(self._done)

    def take_answered(self) -> list[Waiting[Any]]:
        done, self._done = self._done, []
        return done

    has_done, take_done = has_answers, take_answered


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("who", ["background", "cluster"])
def test_what_is_done_in_the_background_is_not_slept_over_behind_answers_that_were_left(
    who: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = with_topic(tmp_path / "data")
    with stepped(broker) as stepping:
        server, waiting = stepping.server, Waiting[Any]()
        answered: list[object] = []
        monkeypatch.setattr(server, "_on_answered", answered.append)
        if who == "background":
            broker.appends.prepare_in(Done(waiting))  # type: ignore[arg-type]
        else:
            broker.answers.sources.append(Done(waiting))
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
        for _ in range(3):
            stepping.client()
        stepping.step_until(lambda: len(server._connections) == 3)
        for one in server._connections:
            one.last_active_ms = -1e12
        server._next_idle_check_ms = 0.0
        stepping.step()
        last, _ = server._to_close[-1]
        last.last_active_ms = server._monotonic_ms
        stepping.step_until(lambda: not server._to_close)
        assert server._connections == {last}


def test_a_broker_that_is_no_longer_served_does_everything_at_once(tmp_path: Path) -> None:
    broker = with_topic(tmp_path / "data")
    with stepped(broker):
        assert broker.budget.is_limited
    assert not broker.budget.is_limited
