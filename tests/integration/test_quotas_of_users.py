"""A user's quota is of the user: no connection, client id, login or token gets around it."""

from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.broker.broker import Broker
from ottla.broker.quotas.quota_changes import QuotaAlteration
from ottla.client.connecting.scram import ScramClient
from ottla.metadata.deciding.topics import NewTopic
from ottla.metadata.quotas import quota_entity
from ottla.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.server.network.listener import Server
from tests.support.altering import alter_quota
from tests.support.brokers import batch
from tests.support.logins import (
    USER,
    authenticate,
    log_in,
    login_broker,
    plain_text,
    shake_hands,
)
from tests.support.serving import WireClient, serving

pytestmark = pytest.mark.slow

FAR_TOO_MUCH = 900_000


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    broker = login_broker(
        tmp_path, delegation_token_secret_key="sealed", connections_max_reauth_ms="3600000"
    )
    broker.admin.create_topic(NewTopic(name="t"))
    limits = {"producer_byte_rate": 1000.0}
    alter_quota(broker, QuotaAlteration(names=quota_entity({"user": USER}), limits=limits))
    return broker


@pytest.fixture
def server(broker: Broker) -> Iterator[Server]:
    with serving(broker) as server:
        yield server


@pytest.fixture
def greedy(server: Server) -> Iterator[WireClient]:
    """The user's connection that has used up what the quota allows for minutes."""
    with WireClient(server.address) as client:
        log_in(client)
        assert throttled_ms(client, FAR_TOO_MUCH) > 0
        yield client


def throttled_ms(client: WireClient, size: int = 1) -> int:
    data = PartitionProduceData(index=0, records=batch(b"x" * size))
    topic = TopicProduceData(name="t", partition_data=[data])
    answer = client.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic]), 9)
    (partition,) = answer.responses[0].partition_responses
    assert partition.error_code == 0
    return int(answer.throttle_time_ms)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_another_connection_with_another_client_id_and_login_is_under_the_same_quota(
    server: Server, greedy: WireClient, mechanism: str
) -> None:
    for client_id in ("another", "", "x" * 300):
        with WireClient(server.address, client_id=client_id) as client:
            log_in(client, mechanism)
            assert throttled_ms(client) > 0


def test_who_logs_in_again_stays_under_the_quota_and_becomes_nobody_else(
    server: Server, greedy: WireClient
) -> None:
    with WireClient(server.address) as client:
        log_in(client)
        log_in(client)
        assert throttled_ms(client) > 0
    with WireClient(server.address) as client:
        log_in(client)
        assert shake_hands(client, "PLAIN").error_code == 0
        answer = authenticate(client, plain_text("bob", "bobs secret"))
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert client.receive_frame() is None


def test_a_token_is_under_its_owners_quota(server: Server, greedy: WireClient) -> None:
    with WireClient(server.address) as owner:
        log_in(owner)
        token = owner.ask(CreateDelegationTokenRequest(max_lifetime_ms=-1), 3)
    with WireClient(server.address) as client:
        secret = b64encode(token.hmac).decode()
        scram = ScramClient("SCRAM-SHA-256", token.token_id, secret, "nonce", is_token=True)
        assert shake_hands(client, "SCRAM-SHA-256").error_code == 0
        challenge = authenticate(client, scram.first())
        assert authenticate(client, scram.prove(bytes(challenge.auth_bytes))).error_code == 0
        assert throttled_ms(client) > 0


def test_one_users_excess_slows_no_other_user(server: Server, greedy: WireClient) -> None:
    with WireClient(server.address) as other:
        log_in(other, user="bob")
        assert throttled_ms(other, FAR_TOO_MUCH) == 0
