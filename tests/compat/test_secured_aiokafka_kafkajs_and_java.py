"""Clients of three languages come in by every login and certificate, or are told why they may not.

Each writes and reads the one topic that it may, and is refused another.
"""

import asyncio
import ssl
from collections.abc import Iterator
from typing import Any

import aiokafka
import aiokafka.abc
import pytest
from aiokafka.errors import KafkaError, TopicAuthorizationFailedError

from tests.compat.java import absence as java_absence
from tests.compat.java import array_list, duration, java_class, kafka
from tests.compat.java_clients import administrator, closing, consumer, record, send_all
from tests.compat.node_clients import absence as node_absence
from tests.compat.node_clients import hold_session
from tests.compat.secured_place import (
    GROUP,
    HIDDEN,
    STORE_PASSWORD,
    TOPIC,
    WAYS,
    SecuredPlace,
    Way,
    secured_place,
)
from tests.support.logins import USER
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.slow

PACKAGE = "org.apache.kafka.common.security"
MODULES = {
    "PLAIN": f"{PACKAGE}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{PACKAGE}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{PACKAGE}.scram.ScramLoginModule",
    "OAUTHBEARER": f"{PACKAGE}.oauthbearer.OAuthBearerLoginModule",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredPlace]:
    with secured_place(tmp_path_factory.mktemp("secured")) as found:
        yield found


class AioKafka:
    """What each client can: `session` returns what it has read back, `failure` what went wrong."""

    @staticmethod
    def session(place: SecuredPlace, way: Way, value: str) -> list[str]:
        async def run() -> list[str]:
            settings = AioKafka._settings(place, way)
            async with aiokafka.AIOKafkaProducer(**settings) as producer:
                await producer.send_and_wait(TOPIC, value.encode())
                with pytest.raises(TopicAuthorizationFailedError):
                    await producer.send_and_wait(HIDDEN, b"no")
            group = {"group_id": f"{GROUP}-{value}", "auto_offset_reset": "earliest"}
            async with aiokafka.AIOKafkaConsumer(TOPIC, **settings, **group) as reader:
                found = [""]
                while found[-1] != value:
                    found.append((await reader.getone()).value.decode())
                return found

        return asyncio.run(asyncio.wait_for(run(), PATIENCE_S))

    @staticmethod
    def failure(place: SecuredPlace, way: Way) -> str:
        async def run() -> None:
            producer = aiokafka.AIOKafkaProducer(**AioKafka._settings(place, way))
            try:
                await producer.start()
            finally:
                await producer.stop()

        with pytest.raises(KafkaError) as failed:
            asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
        return type(failed.value).__name__

    @staticmethod
    def _settings(place: SecuredPlace, way: Way) -> dict[str, Any]:
        class Issued(aiokafka.abc.AbstractTokenProvider):
            async def token(self) -> str:
                return place.token(way)

        settings: dict[str, Any] = {
            "bootstrap_servers": place.address(way),
            "security_protocol": way.protocol,
        }
        if way.has_tls:
            settings["ssl_context"] = ssl.create_default_context(cafile=str(place.trusted(way)))
        if way.has_certificate:
            settings["ssl_context"].load_cert_chain(place.certificate)
        if way.mechanism == "OAUTHBEARER":
            settings["sasl_oauth_token_provider"] = Issued()
        elif way.mechanism:
            settings |= {"sasl_plain_username": USER, "sasl_plain_password": way.password}
        return settings | ({"sasl_mechanism": way.mechanism} if way.mechanism else {})


class KafkaJs:
    @staticmethod
    def session(place: SecuredPlace, way: Way, value: str) -> list[str]:
        done = KafkaJs._hold(place, way, value)
        assert done["refused"] == "TOPIC_AUTHORIZATION_FAILED"
        found: list[str] = done["found"]
        return found

    @staticmethod
    def failure(place: SecuredPlace, way: Way) -> str:
        return str(KafkaJs._hold(place, way, "")["failure"])

    @staticmethod
    def _hold(place: SecuredPlace, way: Way, value: str) -> Any:
        settings: dict[str, Any] = {"ssl": False}
        if way.has_tls:
            settings["ssl"] = {"ca": [place.trusted(way).read_text()]}
        if way.has_certificate:
            own = place.certificate.read_text()
            settings["ssl"] |= {"cert": own, "key": own}
        if way.mechanism == "OAUTHBEARER":
            settings["token"] = place.token(way)
        elif way.mechanism:
            login = {"username": USER, "password": way.password}
            settings["sasl"] = {"mechanism": way.mechanism.lower(), **login}
        return hold_session(
            "kafkajs", place.address(way), "secured",
            settings=settings, topic=TOPIC, hidden=HIDDEN, group=f"{GROUP}-{value}", value=value,
        )  # fmt: skip


class Java:
    @staticmethod
    def session(place: SecuredPlace, way: Way, value: str) -> list[str]:
        settings, address = Java._settings(place, way), place.address(way)
        send_all(address, [record(TOPIC, value)], **settings)
        with pytest.raises(kafka("common.errors.TopicAuthorizationException")):
            send_all(address, [record(HIDDEN, "no")], **settings)
        group = {"group_id": f"{GROUP}-{value}"}
        with closing(consumer(address, **settings, **group)) as reader:
            reader.subscribe(array_list([TOPIC]))
            found = [""]
            while value not in found:
                found += [str(one.value()) for one in reader.poll(duration(1))]
        return found

    @staticmethod
    def failure(place: SecuredPlace, way: Way) -> str:
        import jpype

        with administrator(place.address(way), **Java._settings(place, way)) as admin:
            with pytest.raises(jpype.JException) as failed:
                admin.describeCluster().nodes().get()
            return str(failed.value.getCause().getClass().getSimpleName())

    @staticmethod
    def _settings(place: SecuredPlace, way: Way) -> dict[str, str]:
        settings = {"security_protocol": way.protocol}
        if way.has_tls:
            settings |= {
                "ssl_truststore_type": "PEM",
                "ssl_truststore_location": str(place.trusted(way)),
            }
        if way.has_certificate:
            settings |= {
                "ssl_keystore_type": "PKCS12",
                "ssl_keystore_location": str(place.folder / "client.p12"),
                "ssl_keystore_password": STORE_PASSWORD,
                "ssl_key_password": STORE_PASSWORD,
            }
        if not way.mechanism:
            return settings
        options = f'username="{USER}" password="{_quoted(way.password)}"'
        if way.mechanism == "OAUTHBEARER":
            options, file = "", place.folder / "token"
            file.write_text(place.token(way))
            url = file.as_uri()
            allowed = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
            java_class("java.lang.System").setProperty(allowed, url)
            settings |= {
                "sasl_login_callback_handler_class": (
                    f"{PACKAGE}.oauthbearer.OAuthBearerLoginCallbackHandler"
                ),
                "sasl_oauthbearer_token_endpoint_url": url,
            }
        login = f"{MODULES[way.mechanism]} required {options};"
        return settings | {"sasl_mechanism": way.mechanism, "sasl_jaas_config": login}


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


CLIENTS = [
    pytest.param(AioKafka, id="aiokafka"),
    pytest.param(
        KafkaJs,
        id="kafkajs",
        marks=pytest.mark.skipif(node_absence() is not None, reason=str(node_absence())),
    ),
    pytest.param(
        Java,
        id="java",
        marks=pytest.mark.skipif(java_absence() is not None, reason=str(java_absence())),
    ),
]
each_client = pytest.mark.parametrize("client", CLIENTS)
LOGIN_REFUSED = {
    AioKafka: "KafkaConnectionError",
    KafkaJs: "KafkaJSSASLAuthenticationError",
    Java: "SaslAuthenticationException",
}
TLS_FAILED = {
    AioKafka: "KafkaConnectionError",
    KafkaJs: "KafkaJSConnectionError",
    Java: "SslAuthenticationException",
}
"""What a client raises; aiokafka keeps the reason for its log, and has found no broker."""

WRONG_WAYS = {
    "the password by PLAIN": (Way("OPEN", "PLAIN", "guessed"), LOGIN_REFUSED),
    "the password by SCRAM": (Way("SECURE", "SCRAM-SHA-256", "guessed"), LOGIN_REFUSED),
    "the token": (
        Way("OPEN", "OAUTHBEARER", "guessed"),
        # It takes the text of the refusal for a success, and its next request for the end.
        {**LOGIN_REFUSED, KafkaJs: "KafkaJSConnectionClosedError"},
    ),
    "no certificate": (Way("MUTUAL", password=""), TLS_FAILED),
    "the authority": (Way("SECURE", "PLAIN", is_trusting=False), TLS_FAILED),
    "the host": (Way("ELSEWHERE", "PLAIN"), TLS_FAILED),
}


@each_client
@pytest.mark.parametrize("way", WAYS, ids=lambda one: one.name)
def test_a_client_that_shows_who_it_is_does_what_it_may(
    place: SecuredPlace, client: Any, way: Way
) -> None:
    value = f"{client.__name__}-{way.name}"
    assert client.session(place, way, value)[-1] == value


@each_client
@pytest.mark.parametrize("what", WRONG_WAYS)
def test_a_client_that_is_wrong_or_finds_the_wrong_broker_is_told(
    place: SecuredPlace, client: Any, what: str
) -> None:
    way, errors = WRONG_WAYS[what]
    assert client.failure(place, way) == errors[client]
