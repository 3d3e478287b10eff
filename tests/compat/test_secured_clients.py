"""Clients that log in, over plain connections and TLS, and may do what ACLs say and no more."""

import asyncio
import shutil
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiokafka
import aiokafka.admin
import pytest
from aiokafka.errors import TopicAuthorizationFailedError
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError as KafkaPythonError

from ottla.metadata.acls import Operation, PatternType
from ottla.metadata.acls import ResourceType as Kind
from ottla.metadata.deciding.topics import NewTopic
from tests.support.certificates import Authority
from tests.support.logins import PASSWORD, SASL, USER, login_broker, rule
from tests.support.patience import PATIENCE_S
from tests.support.serving import serving

pytestmark = pytest.mark.slow

TOPIC, HIDDEN, GROUP = "orders", "secrets", "billing"
PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class Secured:
    """A broker with two users: `ana` reads and writes one topic, `bob` may do everything."""

    def __init__(self, addresses: dict[str, str], authority: Path) -> None:
        self.addresses = addresses
        self.authority = authority

    def librdkafka(
        self, protocol: str, mechanism: str, password: str = PASSWORD, user: str = USER
    ) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.addresses[protocol],
            "security.protocol": protocol,
            "ssl.ca.location": str(self.authority),
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
        }

    def python(self, protocol: str, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "bootstrap_servers": self.addresses[protocol],
            "security_protocol": protocol,
            "sasl_mechanism": mechanism,
            "sasl_plain_username": USER,
            "sasl_plain_password": password,
        }
        if protocol == "SASL_SSL":
            settings["ssl_context"] = ssl.create_default_context(cafile=str(self.authority))
        return settings


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("secured")
    authority = Authority()
    store = authority.server().write(directory / "broker.pem")
    settings = {
        **SASL,
        "listeners": "CLIENTS://:0,SECURE://:0",
        "listener_security_protocol_map": "CLIENTS:SASL_PLAINTEXT,SECURE:SASL_SSL",
        "listener_name_secure_plain_sasl_jaas_config": SASL[
            "listener_name_clients_plain_sasl_jaas_config"
        ],
        "ssl_keystore_location": str(store),
        "ssl_keystore_type": "PEM",
        "authorizer_class_name": AUTHORIZER,
        "super_users": "User:bob",
    }
    (directory / "d").mkdir()
    broker = login_broker(directory / "d", **settings)
    broker.admin.create_topic(NewTopic(name=TOPIC, partition_count=1))
    broker.admin.create_topic(NewTopic(name=HIDDEN, partition_count=1))
    broker.security.create_acls(
        [
            rule(Kind.TOPIC, TOPIC, Operation.READ),
            rule(Kind.TOPIC, TOPIC, Operation.WRITE),
            rule(Kind.GROUP, GROUP, Operation.READ, pattern=PatternType.PREFIXED),
        ]
    )
    with serving(broker) as server:
        addresses = {
            protocol: f"localhost:{address[1]}"
            for protocol, address in zip(PROTOCOLS, server.addresses, strict=True)
        }
        yield Secured(addresses, authority.write(directory / "ca.pem"))


each_login = pytest.mark.parametrize(
    ("protocol", "mechanism"),
    [(protocol, mechanism) for protocol in PROTOCOLS for mechanism in MECHANISMS],
)


def confluent(secured: Secured, protocol: str, mechanism: str) -> tuple[bytes, Any]:
    settings = secured.librdkafka(protocol, mechanism)
    producer = Producer({**settings, "enable.idempotence": True})
    failures: list[Any] = []
    producer.produce(TOPIC, b"confluent " + mechanism.encode())
    producer.produce(HIDDEN, b"no", on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer(
        {**settings, "group.id": f"{GROUP}-{protocol}{mechanism}", "auto.offset.reset": "earliest"}
    )
    try:
        consumer.subscribe([TOPIC])
        message = consumer.poll(PATIENCE_S)
    finally:
        consumer.close()
    assert message is not None
    assert message.error() is None
    return message.value(), failures[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def kafka_python(secured: Secured, protocol: str, mechanism: str) -> tuple[bytes, Any]:
    settings = secured.python(protocol, mechanism)
    producer = KafkaProducer(**settings, max_block_ms=PATIENCE_S * 1000)
    try:
        producer.send(TOPIC, b"kafka-python").get(PATIENCE_S)
        with pytest.raises(KafkaPythonError) as refusal:
            producer.send(HIDDEN, b"no").get(PATIENCE_S)
    finally:
        producer.close()
    consumer = KafkaConsumer(TOPIC, **settings, group_id=f"{GROUP}-p", auto_offset_reset="earliest")
    try:
        message = next(iter(consumer))
    finally:
        consumer.close()
    return message.value, "Authorization" in type(refusal.value).__name__


def with_aiokafka(secured: Secured, protocol: str, mechanism: str) -> tuple[bytes, Any]:
    async def run() -> tuple[bytes, bool]:
        settings = secured.python(protocol, mechanism)
        async with aiokafka.AIOKafkaProducer(**settings) as producer:
            await producer.send_and_wait(TOPIC, b"aiokafka")
            with pytest.raises(TopicAuthorizationFailedError):
                await producer.send_and_wait(HIDDEN, b"no")
        consumer = aiokafka.AIOKafkaConsumer(
            TOPIC, **settings, group_id=f"{GROUP}-a", auto_offset_reset="earliest"
        )
        async with consumer:
            message = await asyncio.wait_for(consumer.getone(), PATIENCE_S)
        return message.value, True

    return asyncio.run(run())


@each_login
@pytest.mark.parametrize("client", [confluent, kafka_python, with_aiokafka])
def test_a_client_that_has_logged_in_does_what_it_may(
    secured: Secured, client: Callable[..., tuple[bytes, Any]], protocol: str, mechanism: str
) -> None:
    value, was_refused = client(secured, protocol, mechanism)
    assert value
    assert was_refused


@each_login
@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
def test_kcat_logs_in(secured: Secured, protocol: str, mechanism: str) -> None:
    settings = secured.librdkafka(protocol, mechanism)
    address = settings.pop("bootstrap.servers")
    options = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
    done = subprocess.run(
        ["kcat", "-b", address, *options, "-L"],
        capture_output=True, text=True, timeout=PATIENCE_S, check=True,
    )  # fmt: skip
    assert f'topic "{TOPIC}"' in done.stdout
    assert HIDDEN not in done.stdout


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_an_error_of_authentication(secured: Secured, mechanism: str) -> None:
    errors: list[Any] = []
    settings = secured.librdkafka("SASL_PLAINTEXT", mechanism, "wrong")
    admin = AdminClient({**settings, "error_cb": errors.append})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=0.2)
    until_s = time.monotonic() + PATIENCE_S  # librdkafka has logged in often by then
    while KafkaError._AUTHENTICATION not in [one.code() for one in errors]:
        assert time.monotonic() < until_s, errors
        admin.poll(0.1)


def test_an_administrator_keeps_users_and_rules_by_the_client_of_confluent(
    secured: Secured,
) -> None:
    admin = AdminClient(secured.librdkafka("SASL_SSL", "PLAIN", "bobs secret", "bob"))
    upsertion = UserScramCredentialUpsertion(
        "eve", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), b"hidden"
    )
    admin.alter_user_scram_credentials([upsertion])["eve"].result(PATIENCE_S)
    (described,) = admin.describe_user_scram_credentials(["eve"]).values()
    (info,) = described.result(PATIENCE_S).scram_credential_infos
    assert (info.mechanism, info.iterations) == (ScramMechanism.SCRAM_SHA_256, 4096)
    eve = AdminClient(secured.librdkafka("SASL_PLAINTEXT", "SCRAM-SHA-256", "hidden", "eve"))
    assert eve.list_topics(timeout=PATIENCE_S).topics == {}
    binding = AclBinding(
        ResourceType.TOPIC, HIDDEN, ResourcePatternType.LITERAL, "User:eve", "*",
        AclOperation.DESCRIBE, AclPermissionType.ALLOW,
    )  # fmt: skip
    (created,) = admin.create_acls([binding]).values()
    created.result(PATIENCE_S)
    assert set(eve.list_topics(timeout=PATIENCE_S).topics) == {HIDDEN}
    wanted = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, "User:eve", None,
        AclOperation.ANY, AclPermissionType.ANY,
    )  # fmt: skip
    assert admin.describe_acls(wanted).result(PATIENCE_S) == [binding]
    (gone,) = admin.delete_acls([wanted]).values()
    assert gone.result(PATIENCE_S) == [binding]
    assert eve.list_topics(timeout=PATIENCE_S).topics == {}
