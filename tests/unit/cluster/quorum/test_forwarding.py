"""Requests of clients to a scripted controller, in Envelopes."""

from collections.abc import Callable, Iterator
from queue import SimpleQueue
from threading import Event

import pytest

from ottla.base.clock import SystemClock
from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, UserError
from ottla.base.principal import Principal
from ottla.cluster.quorum import forwarding
from ottla.cluster.quorum.forwarding import Forwarding, ForwardingParts
from ottla.metadata.brokers import Endpoint
from ottla.protocol.api_keys import FORWARDED, ApiKey
from ottla.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.protocol.principal_data import decode_principal
from tests.support.patience import PATIENCE_S, wait_until

FIRST = Endpoint(listener="C", host="first", port=1, security_protocol="PLAINTEXT")
SECOND = Endpoint(listener="C", host="second", port=2, security_protocol="PLAINTEXT")
ALICE = Principal("User", "alice")

Answers = Callable[[str, EnvelopeRequest], EnvelopeResponse]


class Script:
    """The controllers, by what `answer` says for a host; it raises `UserError` for a lost
    connection.
    """

    def __init__(self, answer: Answers, timeout_ms: float = 60_000.0) -> None:
        self.where: Endpoint | None = FIRST
        self.versions: dict[int, int] = {ApiKey.ENVELOPE: 0, **dict.fromkeys(FORWARDED, 1)}
        self.asked: list[tuple[str, EnvelopeRequest]] = []
        self.leaderless_s = 0.0
        """For how long no leader was known before the request."""
        self.complaints: list[str] = []
        self.closed = Event()
        self.answers: SimpleQueue[bytes | ApiError] = SimpleQueue()
        self._answer = answer
        self.connected: list[str] = []
        self.forwarding = Forwarding(
            ForwardingParts(
                connect=lambda endpoint, _: _Connection(self, endpoint, "usual"),
                quick_connect=lambda endpoint, _: _Connection(self, endpoint, "quick"),
                client_id="1",
                controller=lambda: self.where,
                leaderless_since_ms=lambda: SystemClock().monotonic_ms() - 1000 * self.leaderless_s,
                answered=lambda _, answer: self.answers.put(answer),
                clock=SystemClock(),
                timeout_ms=timeout_ms,
                complain=self.complaints.append,
            )
        )

    def ask(self, host: str, request: EnvelopeRequest) -> EnvelopeResponse:
        self.asked.append((host, request))
        return self._answer(host, request)

    def forward(self, request: bytes) -> bytes | ApiError:
        self.forwarding.forward(request, ALICE, "10.0.0.7", is_by_token=True)
        return self.answers.get(timeout=PATIENCE_S)


class _Connection:
    def __init__(self, script: Script, endpoint: Endpoint, kind: str) -> None:
        script.connected.append(kind)
        self._script = script
        self._host = endpoint.host

    def version_of(self, api_key: int, *, newest: int | None = None) -> int:
        version = self._script.versions.get(api_key)
        if version is None:
            raise UserError("it does not answer that")
        return version

    def ask(self, request: EnvelopeRequest, *, newest: int | None = None) -> EnvelopeResponse:
        return self._script.ask(self._host, request)

    def close(self) -> None:
        self._script.closed.set()


@pytest.fixture
def started() -> Iterator[Callable[..., Script]]:
    scripts: list[Script] = []

    def start(answer: Answers, timeout_ms: float = 60_000.0) -> Script:
        scripts.append(Script(answer, timeout_ms))
        scripts[-1].forwarding.start()
        return scripts[-1]

    yield start
    for one in scripts:
        one.forwarding.stop()


def test_a_request_is_sent_with_its_client_and_answered_with_what_the_controller_says(
    started: Callable[..., Script],
) -> None:
    script = started(lambda _, request: EnvelopeResponse(response_data=request.request_data[::-1]))

    assert script.forward(b"abc") == b"cba"

    ((host, envelope),) = script.asked
    assert host == "first"
    assert decode_principal(envelope.request_principal or b"") == (ALICE, True)
    assert envelope.client_host_address == bytes([10, 0, 0, 7])


def test_a_node_that_is_no_controller_any_more_is_left_for_the_one_that_is(
    started: Callable[..., Script],
) -> None:
    def answer(host: str, _: EnvelopeRequest) -> EnvelopeResponse:
        if host == "first":
            script.where = SECOND
            return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
        return EnvelopeResponse(response_data=b"done")

    script = started(answer)

    assert script.forward(b"abc") == b"done"
    assert [host for host, _ in script.asked] == ["first", "second"]


def test_a_lost_connection_and_an_unknown_controller_are_tried_again(
    started: Callable[..., Script],
) -> None:
    left = [UserError("lost"), UserError("lost again")]

    def answer(host: str, _: EnvelopeRequest) -> EnvelopeResponse:
        if left:
            raise left.pop()
        return EnvelopeResponse(response_data=b"done")

    script = started(answer)

    assert script.forward(b"abc") == b"done"
    assert len(script.asked) == 3


def test_without_a_controller_until_the_deadline_the_request_times_out(
    started: Callable[..., Script],
) -> None:
    script = started(lambda *_: EnvelopeResponse(), timeout_ms=50.0)
    script.where = None

    answer = script.forward(b"abc")

    assert isinstance(answer, ApiError)
    assert answer.code is ErrorCode.REQUEST_TIMED_OUT
    assert script.asked == []


def test_a_quorum_that_elects_nobody_is_named_before_clients_give_up(
    started: Callable[..., Script], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarding, "LEADERLESS_MS", 50.0)
    script = started(lambda *_: EnvelopeResponse(response_data=b"done"))
    script.where = None

    answer = script.forward(b"abc")

    assert isinstance(answer, ApiError)
    assert answer.code is ErrorCode.NOT_CONTROLLER
    script.where = FIRST
    assert script.forward(b"abc") == b"done"


def test_who_asks_when_nobody_has_led_for_long_is_told_so_at_once(
    started: Callable[..., Script],
) -> None:
    script = started(lambda *_: EnvelopeResponse(), timeout_ms=600_000.0)
    script.where, script.leaderless_s = None, forwarding.LEADERLESS_MS / 1000

    answer = script.forward(b"abc")

    assert isinstance(answer, ApiError)
    assert answer.code is ErrorCode.NOT_CONTROLLER


def test_who_asks_about_the_quorum_waits_for_no_long_election(
    started: Callable[..., Script],
) -> None:
    script = started(lambda *_: EnvelopeResponse(), timeout_ms=600_000.0)
    script.where, script.leaderless_s = None, forwarding.ASKING_MS / 1000

    answer = script.forward(ApiKey.DESCRIBE_QUORUM.to_bytes(2) + b"abc")

    assert isinstance(answer, ApiError)
    assert answer.code is ErrorCode.NOT_CONTROLLER


def test_people_are_told_once_why_the_controller_answers_nothing(
    started: Callable[..., Script],
) -> None:
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    script = started(lambda *_: EnvelopeResponse(error_code=denied))

    answers = [script.forward(b"abc") for _ in range(2)]

    assert [one.code for one in answers if isinstance(one, ApiError)] == [denied, denied]
    (complaint,) = script.complaints
    assert denied.name in complaint


def test_what_still_waits_at_the_end_is_refused(started: Callable[..., Script]) -> None:
    script = started(lambda *_: EnvelopeResponse())
    script.where = None
    script.forwarding.forward(b"one", ALICE, "::1")
    script.forwarding.forward(b"two", ALICE, "::1")

    script.forwarding.stop()

    codes = [script.answers.get(timeout=PATIENCE_S) for _ in range(2)]
    assert all(isinstance(one, ApiError) and one.code == ErrorCode.NOT_CONTROLLER for one in codes)


def test_versions_that_a_controller_answers_are_known_before_anything_is_passed_on(
    started: Callable[..., Script],
) -> None:
    def answer(*_: object) -> EnvelopeResponse:
        return EnvelopeResponse()

    script = started(answer)

    newest = wait_until(lambda: script.forwarding.newest)

    assert newest == dict.fromkeys(FORWARDED, 1)
    assert script.asked == []


def test_versions_are_learned_by_a_quick_connection_after_what_clients_wait_for() -> None:
    script = Script(lambda *_: EnvelopeResponse(response_data=b"done"))
    for _ in range(2):
        script.forwarding.forward(b"abc", ALICE, "::1")
    script.forwarding.start()
    try:
        wait_until(lambda: script.forwarding.newest)
        assert script.connected == ["usual", "quick"]
        assert script.answers.qsize() == 2
    finally:
        script.forwarding.stop()


def test_what_an_older_controller_does_not_answer_is_missing_among_its_versions() -> None:
    script = Script(lambda *_: EnvelopeResponse())
    del script.versions[ApiKey.ADD_RAFT_VOTER]

    script.forwarding.start()
    newest = wait_until(lambda: script.forwarding.newest)
    script.forwarding.stop()

    assert set(newest) == FORWARDED - {ApiKey.ADD_RAFT_VOTER}


def test_a_controller_whose_versions_cannot_be_read_is_named_once_and_requests_are_passed_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    script = Script(lambda *_: EnvelopeResponse(response_data=b"done"))
    script.versions = None  # type: ignore[assignment]

    script.forwarding.start()
    answers = [script.forward(b"abc") for _ in range(3)]
    script.forwarding.stop()

    assert answers == [b"done"] * 3
    assert caplog.text.count("could not read which versions the controller answers") == 1


def test_a_controller_that_is_stopped_is_left_when_another_one_leads(
    started: Callable[..., Script],
) -> None:
    def answer(host: str, _: EnvelopeRequest) -> EnvelopeResponse:
        if host == "first":
            assert script.closed.wait(PATIENCE_S)
            raise UserError("the connection is closed")
        return EnvelopeResponse(response_data=b"done")

    script = started(answer)
    script.forwarding.forward(b"abc", ALICE, "10.0.0.7")
    wait_until(lambda: script.asked)

    script.where = SECOND
    script.forwarding.leader_changed()

    assert script.answers.get(timeout=PATIENCE_S) == b"done"


def test_a_connection_is_left_after_an_error_that_nobody_expected(
    started: Callable[..., Script],
) -> None:
    """The rest of its answer would be taken for that to the next request."""
    left = [RuntimeError("half read")]

    def answer(*_: object) -> EnvelopeResponse:
        if left:
            raise left.pop()
        return EnvelopeResponse(response_data=b"done")

    script = started(answer)

    first = script.forward(b"abc")
    assert isinstance(first, ApiError)
    assert first.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert script.closed.is_set()
    assert script.forward(b"abc") == b"done"
