"""A broker registers, is unfenced, keeps its session and stops, by the controller's answers."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.error_codes import ErrorCode
from ottla.cluster.quorum.broker_lifecycle import (
    BrokerLifecycle,
    BrokerState,
    LifecycleOptions,
    Request,
    in_version,
)
from ottla.metadata.brokers import Endpoint
from ottla.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from ottla.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from tests.support.brokers import id_of

OPTIONS = LifecycleOptions(
    broker_id=7,
    cluster_id="a-cluster-for-tests-01",
    incarnation_id=id_of(70),
    endpoints=(Endpoint(listener="OUT", host="h", port=9092, security_protocol="SASL_SSL"),),
    features={"metadata.version": (7, 30), "group.version": (0, 1), "later.version": (0, 0)},
    controllers="controller.quorum.voters=1@h:9093",
    rack="r1",
    directories=(id_of(72), id_of(71)),
    previous_epoch=41,
)
INTERVAL_MS = OPTIONS.heartbeat_interval_ms


class Driven:
    """A lifecycle whose requests are answered by hand, each at the time when it is due."""

    def __init__(self, options: LifecycleOptions = OPTIONS) -> None:
        self.lifecycle = BrokerLifecycle(options, 0.0)
        self.now_ms = 0.0
        self.end_offset = 100

    def asked(self) -> Request:
        self.now_ms = max(self.now_ms, self.lifecycle.due_ms)
        request = self.lifecycle.next_request(self.end_offset, self.now_ms)
        assert request is not None
        return request

    def heartbeat(self) -> BrokerHeartbeatRequest:
        request = self.asked()
        assert isinstance(request, BrokerHeartbeatRequest)
        return request

    def registered(self, epoch: int = 90) -> BrokerRegistrationRequest:
        request = self.asked()
        assert isinstance(request, BrokerRegistrationRequest)
        self.lifecycle.answered(
            BrokerRegistrationResponse(error_code=0, broker_epoch=epoch), self.now_ms
        )
        return request

    def heard(
        self, *, is_caught_up: bool = True, is_fenced: bool = False, should_shut_down: bool = False
    ) -> BrokerHeartbeatRequest:
        request = self.heartbeat()
        answer = BrokerHeartbeatResponse(
            error_code=0,
            is_caught_up=is_caught_up,
            is_fenced=is_fenced,
            should_shut_down=should_shut_down,
        )
        self.lifecycle.answered(answer, self.now_ms)
        return request

    def refused(self, error: ErrorCode) -> None:
        kind = (
            BrokerRegistrationResponse
            if isinstance(self.asked(), BrokerRegistrationRequest)
            else BrokerHeartbeatResponse
        )
        self.lifecycle.answered(kind(error_code=error), self.now_ms)

    def unanswered(self) -> None:
        self.asked()
        self.lifecycle.answered(None, self.now_ms)


def running() -> Driven:
    driven = Driven()
    driven.registered()
    driven.heard(is_fenced=True)
    driven.lifecycle.ready(driven.now_ms)
    driven.heard()
    assert driven.lifecycle.state is BrokerState.RUNNING
    return driven


def test_a_cluster_that_has_directories_now_is_told_of_them_once() -> None:
    driven = Driven()
    driven.registered()
    driven.heard()
    driven.heard()
    driven.lifecycle.directories_failed((id_of(71),), driven.now_ms)
    driven.lifecycle.directories_unnamed(driven.now_ms)
    request = driven.registered()
    assert (request.log_dirs, request.previous_broker_epoch) == ([id_of(72)], 90)
    driven.lifecycle.directories_unnamed(driven.now_ms)
    assert driven.heard().offline_log_dirs == [id_of(71)]
    assert driven.lifecycle.state is BrokerState.RUNNING


def test_a_broker_says_what_it_is_when_it_registers() -> None:
    request = Driven().registered()
    assert (request.broker_id, request.cluster_id) == (7, OPTIONS.cluster_id)
    assert request.incarnation_id == id_of(70)
    (listener,) = request.listeners
    assert (listener.name, listener.host, listener.port, listener.security_protocol) == (
        "OUT",
        "h",
        9092,
        3,
    )
    assert [one.name for one in request.features] == [
        "group.version",
        "later.version",
        "metadata.version",
    ]
    assert request.log_dirs == [id_of(71), id_of(72)]
    assert request.previous_broker_epoch == 41


def test_a_cluster_that_has_a_feature_is_offered_it_by_who_only_stands_aside() -> None:
    driven = Driven()
    driven.lifecycle.cluster_has({"streams.version": 1})
    found = {one.name: one.max_supported_version for one in driven.registered().features}
    assert found["streams.version"] == 1
    other = Driven()
    other.lifecycle.cluster_has({"streams.version": 0})
    assert "streams.version" not in {one.name for one in other.registered().features}


def test_older_controllers_hear_of_no_directories_and_of_no_level_0() -> None:
    request = in_version(Driven().registered(), 3)
    assert request.log_dirs
    assert [(one.name, one.min_supported_version) for one in request.features] == [
        ("group.version", 1),
        ("metadata.version", 7),
    ]
    assert in_version(request, 1).log_dirs == []


def test_heartbeats_follow_at_once_until_the_broker_has_caught_up() -> None:
    driven = Driven()
    driven.registered()
    for _ in range(3):
        before_ms = driven.now_ms
        request = driven.heard(is_caught_up=False, is_fenced=True)
        assert request.want_fence
        assert driven.now_ms - before_ms <= 10.0
    driven.end_offset = 200
    assert driven.heard(is_fenced=True).current_metadata_offset == 199
    assert driven.lifecycle.state is BrokerState.RECOVERY


def test_a_broker_wants_to_be_unfenced_when_its_logs_are_ready() -> None:
    driven = Driven()
    driven.registered()
    driven.heard(is_fenced=True)
    assert driven.heard(is_fenced=True).want_fence
    assert driven.lifecycle.due_ms == driven.now_ms + INTERVAL_MS
    driven.lifecycle.ready(driven.now_ms)
    at_ms = driven.now_ms
    assert not driven.heard().want_fence
    assert driven.now_ms == at_ms
    assert driven.lifecycle.state is BrokerState.RUNNING
    assert driven.lifecycle.due_ms == driven.now_ms + INTERVAL_MS


def test_what_is_ready_while_a_request_is_under_way_is_said_right_after_its_answer() -> None:
    driven = Driven()
    driven.registered()
    driven.heard(is_fenced=True)
    driven.heartbeat()
    driven.lifecycle.ready(driven.now_ms)
    answer = BrokerHeartbeatResponse(error_code=0, is_caught_up=True, is_fenced=True)
    driven.lifecycle.answered(answer, driven.now_ms)
    at_ms = driven.now_ms
    assert not driven.heard().want_fence
    assert driven.now_ms == at_ms


@pytest.mark.parametrize(
    "error", [ErrorCode.BROKER_ID_NOT_REGISTERED, ErrorCode.STALE_BROKER_EPOCH]
)
def test_a_broker_that_the_controller_does_not_know_registers_again(error: ErrorCode) -> None:
    driven = running()
    driven.refused(error)
    again = driven.registered(epoch=500)
    assert again.incarnation_id == OPTIONS.incarnation_id
    assert again.previous_broker_epoch == 90
    request = driven.heard(is_caught_up=False, is_fenced=True)
    assert (request.broker_epoch, request.want_fence) == (500, False)
    assert driven.lifecycle.due_ms - driven.now_ms <= 10.0
    driven.heard()
    assert not driven.lifecycle.is_fenced
    assert driven.lifecycle.due_ms == driven.now_ms + INTERVAL_MS


def test_who_is_refused_for_long_says_which_process_has_its_id() -> None:
    driven = Driven(replace(OPTIONS, registration_timeout_ms=5000))
    while driven.lifecycle.failure is None:
        driven.now_ms = max(driven.now_ms, driven.lifecycle.due_ms)
        if driven.lifecycle.next_request(1, driven.now_ms) is not None:
            answer = BrokerRegistrationResponse(error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION)
            driven.lifecycle.answered(answer, driven.now_ms)
    assert 5000 <= driven.now_ms <= 5000 + OPTIONS.session_timeout_ms / 2
    assert driven.lifecycle.failure == (
        "node 7 could not register as a broker within initial.broker.registration.timeout.ms=5000: "
        "broker 7 counts as alive: after a kill that ends with its session "
        "(broker.session.timeout.ms); if it lasts, another process has this node.id"
    )


def test_who_reaches_no_controller_gives_up_and_one_that_was_registered_never_does() -> None:
    driven = Driven(replace(OPTIONS, registration_timeout_ms=5000))
    driven.unanswered()
    assert driven.lifecycle.next_request(1, 5000.0) is None
    assert driven.lifecycle.failure is not None
    assert driven.lifecycle.failure.endswith(
        "no controller has answered; start one, or correct controller.quorum.voters=1@h:9093"
    )

    known = running()
    for _ in range(30):
        known.unanswered()
    assert known.lifecycle.failure is None
    assert known.now_ms > OPTIONS.registration_timeout_ms


def test_pauses_after_failures_grow_to_half_a_session() -> None:
    driven, pauses = running(), []
    for _ in range(9):
        driven.unanswered()
        pauses.append(driven.lifecycle.due_ms - driven.now_ms)
    assert pauses[:3] == [100.0, 200.0, 400.0]
    assert pauses[-1] == OPTIONS.session_timeout_ms / 2
    driven.lifecycle.hurry(driven.now_ms)
    assert driven.lifecycle.due_ms == driven.now_ms


def test_a_broker_stops_when_its_leaderships_have_moved() -> None:
    driven = running()
    driven.lifecycle.leave(driven.now_ms)
    request = driven.heard()
    assert (request.want_shut_down, request.want_fence) == (True, False)
    pauses = [driven.lifecycle.due_ms - driven.now_ms]
    for _ in range(4):
        driven.heard()
        pauses.append(driven.lifecycle.due_ms - driven.now_ms)
    assert pauses == [50.0, 100.0, 200.0, 400.0, 400.0]
    driven.heard(is_fenced=True, should_shut_down=True)
    assert driven.lifecycle.state is BrokerState.SHUTTING_DOWN
    assert driven.lifecycle.next_request(1, driven.now_ms + 10 * INTERVAL_MS) is None


def test_a_broker_that_leads_nothing_has_nothing_to_hand_over() -> None:
    starting = Driven()
    starting.lifecycle.leave(0.0)
    assert starting.lifecycle.state is BrokerState.SHUTTING_DOWN
    forgotten = running()
    forgotten.lifecycle.leave(forgotten.now_ms)
    forgotten.refused(ErrorCode.BROKER_ID_NOT_REGISTERED)
    assert forgotten.lifecycle.state is BrokerState.SHUTTING_DOWN


def test_failed_and_cordoned_directories_are_named_at_once_and_from_then_on() -> None:
    driven = running()
    driven.lifecycle.directories_failed((id_of(71),), driven.now_ms)
    driven.lifecycle.cordoned((id_of(72),), driven.now_ms)
    at_ms = driven.now_ms
    for _ in range(2):
        request = driven.heard()
        assert request.offline_log_dirs == [id_of(71)]
        assert request.cordoned_log_dirs == [id_of(72)]
    assert driven.now_ms == at_ms + INTERVAL_MS
    driven.lifecycle.directories_failed((id_of(71),), driven.now_ms)
    driven.refused(ErrorCode.STALE_BROKER_EPOCH)
    assert driven.registered(epoch=91).log_dirs == [id_of(72)]


EVENTS = st.one_of(
    st.sampled_from(["ready", "leave", "hurry", "lost", "failed"]),
    st.sampled_from([*ErrorCode][1:]),
    st.tuples(st.booleans(), st.booleans(), st.booleans()),
)


@given(st.lists(st.tuples(EVENTS, st.integers(0, 5000)), max_size=40))
def test_whatever_is_answered_a_request_tells_the_latest_registration(
    events: "list[tuple[object, int]]",
) -> None:
    options = replace(OPTIONS, registration_timeout_ms=10**9)
    lifecycle, now_ms, epoch = BrokerLifecycle(options, 0.0), 0.0, -1
    is_ready = wants_to_stop = False
    for event, wait_ms in events:
        now_ms += wait_ms
        request = lifecycle.next_request(50, now_ms)
        if request is not None:
            assert lifecycle.next_request(50, now_ms) is None, "one at a time"
            assert lifecycle.state is not BrokerState.SHUTTING_DOWN
        if isinstance(request, BrokerHeartbeatRequest):
            assert request.broker_epoch == epoch
            assert request.want_fence or is_ready
            assert not request.want_shut_down or wants_to_stop
        match event:
            case "ready":
                lifecycle.ready(now_ms)
                is_ready = True
            case "leave":
                lifecycle.leave(now_ms)
                wants_to_stop = True
            case "hurry":
                lifecycle.hurry(now_ms)
            case "failed":
                lifecycle.directories_failed((id_of(71),), now_ms)
        if isinstance(request, BrokerRegistrationRequest):
            assert (request.incarnation_id, request.cluster_id) == (
                OPTIONS.incarnation_id,
                OPTIONS.cluster_id,
            )
            error = event if isinstance(event, ErrorCode) else ErrorCode.NONE
            if error is ErrorCode.NONE:
                epoch += 7
            answer = BrokerRegistrationResponse(error_code=error, broker_epoch=epoch)
            lifecycle.answered(None if event == "lost" else answer, now_ms)
            if event == "lost":
                epoch -= 7
        elif request is not None:
            flags = event if isinstance(event, tuple) else (True, False, False)
            lifecycle.answered(
                None
                if event == "lost"
                else BrokerHeartbeatResponse(
                    error_code=event if isinstance(event, ErrorCode) else 0,
                    is_caught_up=flags[0],
                    is_fenced=flags[1],
                    should_shut_down=flags[2],
                ),
                now_ms,
            )
        assert lifecycle.due_ms <= now_ms + OPTIONS.session_timeout_ms / 2
    assert lifecycle.epoch == epoch
