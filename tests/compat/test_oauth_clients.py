"""Clients that log in by OAUTHBEARER over TLS, with tokens that an issuer has signed."""

import asyncio
import json
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import aiokafka.abc
import jwt
import kafka
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm
from kafka import KafkaConsumer, KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider

import ottla
from ottla.client.connecting.security import AuthenticationError
from ottla.metadata.deciding.topics import NewTopic
from ottla.server.network.connection_events import LoginOutcome
from ottla.server.network.listener import Server
from tests.support.certificates import Authority
from tests.support.patience import PATIENCE_S
from tests.support.serving import open_broker, serving

pytestmark = pytest.mark.slow

KEY = ec.generate_private_key(ec.SECP256R1())
TOPIC = "orders"
SESSION_MS = 2000
"""After which a connection must log in again. librdkafka does so when nine tenths are over: never
more often than once a second, however busy the host is. A token's own end would not do for that:
its callback may be late, and then what is left of the token is all the time that a login has."""
ENOUGH_LOGINS = 3


def token(lifetime_s: float = 600) -> str:
    claims = {"sub": "ana", "aud": "ottla", "exp": time.time() + lifetime_s}
    return jwt.encode(claims, KEY, algorithm="ES256", headers={"kid": "one"})


class Issued(AbstractTokenProvider):
    def token(self) -> str:
        return token()


class IssuedToLoop(aiokafka.abc.AbstractTokenProvider):
    async def token(self) -> str:
        return token()


class Secured:
    def __init__(self, server: Server, authority: Path) -> None:
        self.address, self.address_of_sessions = (
            f"localhost:{port}" for _, port in server.addresses
        )
        self.authority = authority
        self._counts = server.connection_counts

    @property
    def again_count(self) -> int:
        """How often clients have logged in again on their connections."""
        return self._counts.logins[LoginOutcome.AGAIN]

    @property
    def librdkafka(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.address,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.authority),
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (token(), time.time() + 600),
        }

    @property
    def python(self) -> dict[str, Any]:
        return {
            "bootstrap_servers": self.address,
            "security_protocol": "SASL_SSL",
            "ssl_context": ssl.create_default_context(cafile=str(self.authority)),
            "sasl_mechanism": "OAUTHBEARER",
        }


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("oauth")
    entry = ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True)
    (directory / "keys.json").write_text(json.dumps({"keys": [{**entry, "kid": "one"}]}))
    authority = Authority()
    broker = open_broker(
        directory / "d",
        listeners="CLIENTS://:0,SESSIONS://:0",
        listener_security_protocol_map="CLIENTS:SASL_SSL,SESSIONS:SASL_SSL",
        sasl_enabled_mechanisms="OAUTHBEARER",
        sasl_oauthbearer_jwks_endpoint_url=f"file://{directory / 'keys.json'}",
        sasl_oauthbearer_expected_audience="ottla",
        listener_name_sessions_connections_max_reauth_ms=str(SESSION_MS),
        ssl_keystore_location=str(authority.server().write(directory / "broker.pem")),
        ssl_keystore_type="PEM",
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        super_users="User:ana",
    )
    broker.admin.create_topic(NewTopic(name=TOPIC, partition_count=1))
    with serving(broker) as server:
        yield Secured(server, authority.write(directory / "ca.pem"))


def confluent(secured: Secured) -> bytes | None:
    """Works for longer than a login counts, and logs in again meanwhile."""
    settings = {**secured.librdkafka, "bootstrap.servers": secured.address_of_sessions}
    producer = Producer(settings)
    consumer = Consumer({**settings, "group.id": "c"})
    consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
    own, value, until_s = b"of confluent-kafka", None, time.monotonic() + PATIENCE_S
    try:
        while value != own or secured.again_count < ENOUGH_LOGINS:
            assert time.monotonic() < until_s
            producer.produce(TOPIC, own)
            assert producer.flush(PATIENCE_S) == 0
            record = consumer.poll(PATIENCE_S)
            assert record is not None
            assert record.error() is None
            value = record.value()
    finally:
        consumer.close()
    return value


def kafka_python(secured: Secured) -> bytes | None:
    settings = {**secured.python, "sasl_oauth_token_provider": Issued()}
    producer = KafkaProducer(**settings)
    sent = producer.send(TOPIC, b"of kafka-python").get(PATIENCE_S)
    producer.close()
    consumer = KafkaConsumer(group_id=None, **settings)
    partition = kafka.TopicPartition(TOPIC, 0)
    consumer.assign([partition])
    consumer.seek(partition, sent.offset)
    try:
        value: bytes | None = next(consumer).value
    finally:
        consumer.close()
    return value


def aio(secured: Secured) -> bytes | None:
    async def run() -> bytes | None:
        settings = {**secured.python, "sasl_oauth_token_provider": IssuedToLoop()}
        async with aiokafka.AIOKafkaProducer(**settings) as producer:
            sent = await producer.send_and_wait(TOPIC, b"of aiokafka")
        async with aiokafka.AIOKafkaConsumer(**settings) as consumer:
            partition = aiokafka.TopicPartition(TOPIC, 0)
            consumer.assign([partition])
            consumer.seek(partition, sent.offset)
            value: bytes | None = (await consumer.getone()).value
            return value

    return asyncio.run(asyncio.wait_for(run(), PATIENCE_S))


@pytest.mark.parametrize(
    ("client", "value"),
    [
        (confluent, b"of confluent-kafka"),
        (kafka_python, b"of kafka-python"),
        (aio, b"of aiokafka"),
    ],
    ids=["confluent-kafka", "kafka-python", "aiokafka"],
)
def test_records_go_and_come(secured: Secured, client: Any, value: bytes) -> None:
    assert client(secured) == value


def test_our_own_client_brings_the_token_in_a_file(secured: Secured, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(token())
    settings = {name: str(value) for name, value in secured.librdkafka.items()}
    del settings["bootstrap.servers"], settings["oauth_cb"]
    settings["sasl.oauthbearer.token.endpoint.url"] = f"file://{file}"
    with ottla.Producer(secured.address, settings=settings) as producer:
        assert producer.send(TOPIC, b"ours").result(PATIENCE_S).topic == TOPIC
    file.write_text(token(-3600))
    with (
        pytest.raises(AuthenticationError, match="the token is refused") as refused,
        ottla.Admin(secured.address, settings) as admin,
    ):
        admin.list_topics()
    assert file.read_text() not in str(refused.value)


def test_a_token_whose_time_is_over_lets_nobody_in(secured: Secured) -> None:
    said: list[str] = []
    settings = {
        **secured.librdkafka,
        "oauth_cb": lambda _: (token(-3600), time.time() + 60),
        "error_cb": lambda error: said.append(error.str()),
    }
    admin = AdminClient(settings)
    until_s = time.monotonic() + PATIENCE_S
    while not any("SASL" in one for one in said):
        assert time.monotonic() < until_s
        admin.poll(0.1)
