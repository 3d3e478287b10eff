"""Delegation tokens that end in a session, and rules for transactional ids, by other clients."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from ottla.metadata.acls import Operation, ResourceType
from ottla.metadata.deciding.topics import NewTopic
from ottla.server.network.listener import Server
from ottla.testing.clock import FakeClock
from tests.compat.java import kafka, needs_java_client, properties, wait
from tests.compat.java_clients import COMMON, closing, named, producer, record
from tests.support.logins import PASSWORD, USER, login_broker, rule
from tests.support.patience import PATIENCE_S
from tests.support.serving import serving

pytestmark = pytest.mark.slow

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
LIFE_MS = 3_600_000
OWN, OTHERS = "payments", "salaries"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def server(tmp_path: Path, clock: FakeClock) -> Iterator[Server]:
    broker = login_broker(
        tmp_path,
        delegation_token_secret_key="sealed",
        delegation_token_expiry_time_ms=str(LIFE_MS),
        transaction_state_log_num_partitions="1",
        offsets_topic_num_partitions="1",
        authorizer_class_name=AUTHORIZER,
    )
    for name in (OWN, OTHERS):
        broker.admin.create_topic(NewTopic(name=name, partition_count=1))
    broker.security.create_acls(
        [
            rule(ResourceType.TOPIC, OWN, Operation.WRITE),
            rule(ResourceType.TRANSACTIONAL_ID, OWN, Operation.WRITE),
            rule(ResourceType.GROUP, OWN, Operation.READ),
            rule(ResourceType.TOPIC, OWN, Operation.READ),
        ]
    )
    with serving(broker, clock) as server:
        yield server


def address_of(server: Server) -> str:
    host, port = server.address
    return f"{host}:{port}"


def java_login(name: str, password: str, more: str = "") -> dict[str, str]:
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_jaas_config": f'{SCRAM} username="{name}" password="{quoted}"{more};',
    }


def administrator(address: str, **login: str) -> Any:
    """Waits longer than those of other tests: its first login may meet a busy machine."""
    config = {**COMMON, "bootstrap.servers": address, **named(login)}
    return closing(kafka("clients.admin.Admin").create(properties(config)))


@needs_java_client
class TestJava:
    def test_a_session_ends_with_its_token_and_continues_with_a_renewed_one(
        self, server: Server, clock: FakeClock
    ) -> None:
        address = address_of(server)
        with administrator(address, **java_login(USER, PASSWORD)) as owner:
            token = wait(owner.createDelegationToken().delegationToken())
            by_token = java_login(
                str(token.tokenInfo().tokenId()),
                str(token.hmacAsBase64String()),
                ' tokenauth="true"',
            )
            with administrator(address, **by_token) as client:
                assert wait(client.describeCluster().nodes()).size() == 1
                with pytest.raises(kafka("common.errors.UnsupportedByAuthenticationException")):
                    wait(client.createDelegationToken().delegationToken())
                clock.advance(LIFE_MS // 2)
                wait(owner.renewDelegationToken(token.hmac()).expiryTimestamp())
                clock.advance(LIFE_MS // 2 + 1)
                assert wait(client.describeCluster().nodes()).size() == 1, "it came again"
                clock.advance(LIFE_MS)
                with pytest.raises(kafka("common.errors.SaslAuthenticationException")):
                    wait(client.describeCluster().nodes())

    def test_transactions_are_written_by_their_owners_alone(self, server: Server) -> None:
        address, login = address_of(server), java_login(USER, PASSWORD)
        denied = kafka("common.errors.TransactionalIdAuthorizationException")
        with (
            closing(producer(address, transactional_id=OTHERS, **login)) as other,
            pytest.raises(denied),
        ):
            other.initTransactions()
        with closing(producer(address, transactional_id=OWN, **login)) as own:
            own.initTransactions()
            own.beginTransaction()
            wait(own.send(record(OWN, "tea")))
            own.commitTransaction()
            own.beginTransaction()
            with pytest.raises(kafka("common.errors.TopicAuthorizationException")):
                wait(own.send(record(OTHERS, "kettle")))
            own.abortTransaction()


class TestConfluent:
    @staticmethod
    def producer(server: Server, transactional_id: str) -> Any:
        return confluent_kafka.Producer(
            {
                "bootstrap.servers": address_of(server),
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.username": USER,
                "sasl.password": PASSWORD,
                "transactional.id": transactional_id,
            }
        )

    def test_transactions_are_written_by_their_owners_alone(self, server: Server) -> None:
        other = self.producer(server, OTHERS)
        code = confluent_kafka.KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert refusal(lambda: other.init_transactions(PATIENCE_S)) == code

        own = self.producer(server, OWN)
        own.init_transactions(PATIENCE_S)
        own.begin_transaction()
        own.produce(OWN, b"tea")
        position = [confluent_kafka.TopicPartition(OWN, 0, 5)]
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": address_of(server), "group.id": OTHERS}
        )
        group = consumer.consumer_group_metadata()
        consumer.close()
        code = confluent_kafka.KafkaError.GROUP_AUTHORIZATION_FAILED
        assert refusal(lambda: own.send_offsets_to_transaction(position, group, PATIENCE_S)) == code
        own.abort_transaction(PATIENCE_S)


def refusal(ask: Callable[[], object]) -> int:
    """The code; the exception would hold the client, which is to end with the test."""
    try:
        ask()
    except confluent_kafka.KafkaException as error:
        return int(error.args[0].code())
    return 0
