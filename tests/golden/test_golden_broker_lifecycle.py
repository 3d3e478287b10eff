"""What brokers of Kafka 3.9 said of themselves from their start to their stop, said again."""

from collections import Counter
from collections.abc import Iterator

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.cluster.quorum.broker_lifecycle import BrokerLifecycle, BrokerState, LifecycleOptions
from ottla.metadata.brokers import Endpoint, protocol_of
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.protocol.messages.broker_registration import BrokerRegistrationRequest
from tests.golden.exchanges import RECORDED, Exchange, exchanges

pytestmark = pytest.mark.skipif(RECORDED is None, reason="no recorded exchanges (OTTLA_SHARED)")

BROKERS = (1, 2, 3)
ASKED = (ApiKey.BROKER_REGISTRATION, ApiKey.BROKER_HEARTBEAT)


def lives(broker: int) -> Iterator[list[Exchange]]:
    """The exchanges of each process that was the broker; without those of a former controller."""
    life: list[Exchange] = []
    for one in exchanges("../kraft/exchanges.jsonl"):
        if one.sender != broker or one.header.api_key not in ASKED or one.response_frame is None:
            continue
        if one.header.api_key == ApiKey.BROKER_REGISTRATION and life:
            yield life
            life = []
        if one.response.error_code != ErrorCode.NOT_CONTROLLER:
            life.append(one)
    yield life


def options_of(first: BrokerRegistrationRequest) -> LifecycleOptions:
    return LifecycleOptions(
        broker_id=first.broker_id,
        cluster_id=first.cluster_id,
        incarnation_id=first.incarnation_id,
        endpoints=tuple(
            Endpoint(
                listener=one.name,
                host=one.host,
                port=one.port,
                security_protocol=protocol_of(one.security_protocol),
            )
            for one in first.listeners
        ),
        features={
            one.name: (one.min_supported_version, one.max_supported_version)
            for one in first.features
        },
        rack=first.rack,
        directories=tuple(first.log_dirs),
        previous_epoch=first.previous_broker_epoch,
    )


@pytest.mark.slow
@pytest.mark.parametrize("broker", BROKERS)
def test_a_broker_asks_what_kafkas_broker_asked(broker: int) -> None:
    seen, ends = Counter[BrokerState](), []
    for life in lives(broker):
        lifecycle, now_ms = BrokerLifecycle(options_of(life[0].request), 0.0), 0.0
        for one in life:
            wanted, now_ms, end_offset = one.request, max(now_ms, lifecycle.due_ms), 0
            if isinstance(wanted, BrokerHeartbeatRequest):
                end_offset = wanted.current_metadata_offset + 1
                if not wanted.want_fence:
                    lifecycle.ready(now_ms)
                if wanted.want_shut_down and lifecycle.state is BrokerState.RUNNING:
                    lifecycle.leave(now_ms)
            assert lifecycle.next_request(end_offset, now_ms) == wanted, one.line
            lifecycle.answered(one.response, now_ms)
            seen[lifecycle.state] += 1
        ends.append(lifecycle.state)
    assert set(seen) == set(BrokerState)
    assert ends[-1] is BrokerState.SHUTTING_DOWN
