"""Ottla's own clients over TLS, to Ottla's broker: who is believed, and who is let in."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import ottla
from ottla.base.errors import UserError
from ottla.metadata.deciding.topics import NewTopic
from tests.support.certificates import Authority, Identity, authority, pkcs12_store
from tests.support.patience import PATIENCE_S
from tests.support.serving import open_broker, serving


@dataclass(frozen=True, slots=True)
class Place:
    port: int
    directory: Path

    def settings(self, trusted: Authority, *, has_certificate: bool = True) -> dict[str, str]:
        found = {
            "security.protocol": "SSL",
            "ssl.ca.location": str(trusted.write(self.directory / "trusted.pem")),
        }
        if has_certificate:
            own = authority().client("ana").write(self.directory / "client.pem")
            found |= {"ssl.certificate.location": str(own), "ssl.key.location": str(own)}
        return found


@contextmanager
def served(directory: Path, identity: Identity) -> Iterator[Place]:
    """A broker that shows a certificate, and wants one of its clients."""
    broker = open_broker(
        directory / "data",
        listeners="SSL://127.0.0.1:9093",
        ssl_client_auth="required",
        ssl_keystore_location=str(identity.write(directory / "server.pem")),
        ssl_truststore_location=str(authority().write(directory / "ca.pem")),
    )
    broker.admin.create_topic(NewTopic(name="orders"))
    with serving(broker) as server:
        yield Place(server.address[1], directory)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with served(tmp_path, authority().server()) as found:
        yield found


def test_records_go_in_and_out(place: Place) -> None:
    settings = place.settings(authority())
    with ottla.Producer(f"localhost:{place.port}", settings=settings) as producer:
        for number in range(100):
            producer.send("orders", b"%d" % number)
    reading = settings | {"auto.offset.reset": "earliest"}
    with ottla.Consumer(f"localhost:{place.port}", settings=reading) as consumer:
        consumer.assign([ottla.TopicPartition("orders", 0)])
        values = [consumer.poll(PATIENCE_S).value for _ in range(100)]  # type: ignore[union-attr]
    assert values == [b"%d" % number for number in range(100)]


@pytest.mark.usefixtures("without_pauses")
def test_a_broker_whose_authority_is_unknown_is_not_believed(place: Place) -> None:
    with pytest.raises(UserError, match=r"certificate verify failed.*; ssl.ca.location names"):
        ottla.Admin(f"localhost:{place.port}", place.settings(Authority())).list_topics()


@pytest.mark.usefixtures("without_pauses")
def test_a_client_without_settings_is_told_to_set_the_protocol(place: Place) -> None:
    with pytest.raises(UserError, match=r"; set security.protocol if the listener needs TLS"):
        ottla.Admin(f"localhost:{place.port}").list_topics()


@pytest.mark.usefixtures("without_pauses")
def test_tls_with_a_listener_that_has_none_is_named(tmp_path: Path) -> None:
    with serving(open_broker(tmp_path / "data")) as server:
        settings = {"security.protocol": "SSL"}
        with pytest.raises(UserError, match="; if the listener uses no TLS, set "):
            ottla.Admin(f"localhost:{server.address[1]}", settings).list_topics()


@pytest.mark.usefixtures("without_pauses")
def test_a_broker_under_another_name_is_believed_only_where_names_are_not_checked(
    tmp_path: Path,
) -> None:
    with served(tmp_path, authority().client("elsewhere")) as place:
        settings = place.settings(authority())
        with pytest.raises(UserError, match="not valid for 'localhost'"):
            ottla.Admin(f"localhost:{place.port}", settings).list_topics()
        settings["ssl.endpoint.identification.algorithm"] = "none"
        with ottla.Admin(f"localhost:{place.port}", settings) as admin:
            assert admin.list_topics()


@pytest.mark.usefixtures("without_pauses")
def test_a_client_without_a_certificate_is_refused_in_one_line(place: Place) -> None:
    settings = place.settings(authority(), has_certificate=False)
    with pytest.raises(UserError, match=f"localhost:{place.port}") as refused:
        ottla.Admin(f"localhost:{place.port}", settings).list_topics()
    if "CERTIFICATE_REQUIRED" in str(refused.value):  # or the connection was reset before
        assert "; ssl.certificate.location names the file" in str(refused.value)


PKCS12 = "opens-both"


def java_settings(kind: str, directory: Path) -> dict[str, str]:
    """Of a client in Java, whose names our own clients take."""
    own = authority().client("ana")
    if kind == "PKCS12":
        store = directory / "client.p12"
        store.write_bytes(pkcs12_store(own, PKCS12))
        return {
            "ssl.truststore.location": str(store),
            "ssl.truststore.password": PKCS12,
            "ssl.keystore.location": str(store),
            "ssl.keystore.password": PKCS12,
            "ssl.keystore.type": "PKCS12",
        }
    if kind == "PEM":
        return {
            "ssl.truststore.location": str(authority().write(directory / "trusted.pem")),
            "ssl.truststore.type": "PEM",
            "ssl.keystore.location": str(own.write(directory / "client.pem", "sesame")),
            "ssl.keystore.type": "PEM",
            "ssl.key.password": "sesame",
        }
    return {
        "ssl.truststore.certificates": authority().pem,
        "ssl.truststore.type": "PEM",
        "ssl.keystore.certificate.chain": own.certificate_pem.replace("\n", "\\n"),
        "ssl.keystore.key": own.key_pem(),
        "ssl.keystore.type": "PEM",
    }


@pytest.mark.parametrize("kind", ["PKCS12", "PEM", "PEM in the settings"])
def test_keys_and_certificates_come_as_for_a_client_in_java(place: Place, kind: str) -> None:
    settings = {"security.protocol": "SSL", **java_settings(kind, place.directory)}
    with ottla.Admin(f"localhost:{place.port}", settings) as admin:
        assert admin.list_topics()


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"ssl.keystore.password": "guessed"}, "ssl.keystore.password: does not open"),
        ({"ssl.truststore.password": "guessed"}, "ssl.truststore.password: does not open"),
        ({"ssl.truststore.location": "/not/there"}, "/not/there: No such file"),
        ({"ssl.keystore.type": "BKS"}, "it is one of JKS, PEM, PKCS12"),
        ({"ssl.key.location": "own.key"}, "ssl.key.location name PEM files"),
    ],
)
def test_a_store_that_does_not_open_is_one_line_without_its_password(
    place: Place, changed: dict[str, str], reason: str
) -> None:
    settings = {"security.protocol": "SSL", **java_settings("PKCS12", place.directory), **changed}
    with pytest.raises(UserError, match=reason) as refused:
        ottla.Admin(f"localhost:{place.port}", settings).list_topics()
    assert "guessed" not in str(refused.value)
    assert PKCS12 not in str(refused.value)


def test_a_key_without_its_certificate_is_refused() -> None:
    with pytest.raises(UserError, match=r"ssl.key.location needs ssl.certificate.location"):
        ottla.Admin("localhost:1", {"security.protocol": "SSL", "ssl.key.location": "own.key"})
