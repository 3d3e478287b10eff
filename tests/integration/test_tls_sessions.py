"""Sessions of TLS that clients resume, and the host names that they ask for: whom they let in."""

import contextlib
import logging
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.base.principal import Principal
from ottla.server.tls import contexts
from tests.integration.test_server_reconfigured import altered
from tests.integration.test_tls_listeners import (
    VERSIONS,
    begun,
    mutual,
    of_tls,
    principals,
    tls_broker,
    trusting,
)
from tests.support.certificates import Authority, authority
from tests.support.patience import wait_until
from tests.support.serving import WireClient, serving

TLS12, TLS13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
A_YEAR_S = 365 * 86400

pytestmark = pytest.mark.parametrize("version", [TLS12, TLS13])


def client_of(directory: Path, version: ssl.TLSVersion, signer: Authority) -> ssl.SSLContext:
    """A client's context that trusts the broker, and has a certificate of an authority."""
    context = trusting(signer.client("ana", "Acme"), directory)
    context.minimum_version = context.maximum_version = version
    return context


@contextlib.contextmanager
def secured(
    address: tuple[str, int], context: ssl.SSLContext, session: ssl.SSLSession | None = None
) -> Iterator[tuple[WireClient, ssl.SSLSocket]]:
    with WireClient(address) as client:
        peer = context.wrap_socket(client.socket, server_hostname="localhost", session=session)
        client.socket = peer
        yield client, peer


def session_of(address: tuple[str, int], context: ssl.SSLContext) -> ssl.SSLSession:
    """Of a client that the broker has answered: TLS 1.3 brings the session with the answer."""
    with secured(address, context) as (client, peer):
        assert client.ask(VERSIONS, 0).error_code == 0
        assert peer.session is not None
        return peer.session


def is_answered(address: tuple[str, int], context: ssl.SSLContext, session: ssl.SSLSession) -> bool:
    try:
        with secured(address, context, session) as (client, _):
            client.send(VERSIONS, 0)
            return client.receive_frame() is not None
    except OSError:
        return False


def test_a_resumed_session_is_its_certificates_user(
    tmp_path: Path, version: ssl.TLSVersion
) -> None:
    context = client_of(tmp_path, version, authority())
    with serving(mutual(tmp_path)) as server:
        session = session_of(of_tls(server), context)
        wait_until(lambda: not principals(server))
        with secured(of_tls(server), context, session) as (client, peer):
            assert client.ask(VERSIONS, 0).error_code == 0
            assert peer.session_reused
            assert principals(server) == [Principal("User", "CN=ana,O=Acme")]


def test_a_session_is_worth_nothing_after_its_authority_has_left_the_truststore(
    tmp_path: Path, version: ssl.TLSVersion
) -> None:
    old, new = Authority(), Authority()
    trusted = old.write(tmp_path / "clients.pem")
    context = client_of(tmp_path, version, old)
    broker = mutual(tmp_path, ssl_truststore_location=str(trusted))
    with serving(broker) as server, WireClient(server.address) as admin:
        session = session_of(of_tls(server), context)
        assert is_answered(of_tls(server), context, session)
        new.write(trusted)
        changed = {"listener.name.ssl.ssl.truststore.location": str(trusted)}
        assert altered(admin, **changed) == (0, None)
        assert not is_answered(of_tls(server), context, session)


def test_a_session_made_without_a_certificate_opens_no_listener_that_requires_one(
    tmp_path: Path, version: ssl.TLSVersion
) -> None:
    listeners = "PLAINTEXT://:1,OPEN://127.0.0.1:2,CLOSED://127.0.0.1:3"
    broker = mutual(
        tmp_path,
        listeners=listeners,
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,OPEN:SSL,CLOSED:SSL",
        listener_name_open_ssl_client_auth="none",
    )
    context = trusting()
    context.minimum_version = context.maximum_version = version
    with serving(broker) as server:
        _, opened, closed = server.addresses
        session = session_of(opened, context)
        assert is_answered(opened, context, session)
        assert not is_answered(closed, context, session)


def test_a_session_is_worth_nothing_after_certificates_are_required(
    tmp_path: Path, version: ssl.TLSVersion
) -> None:
    context = trusting()
    context.minimum_version = context.maximum_version = version
    with (
        serving(mutual(tmp_path, ssl_client_auth="none")) as server,
        WireClient(server.address) as admin,
    ):
        session = session_of(of_tls(server), context)
        assert altered(admin, **{"listener.name.ssl.ssl.client.auth": "required"}) == (0, None)
        assert not is_answered(of_tls(server), context, session)


def test_a_session_ends_with_its_certificate(
    tmp_path: Path,
    version: ssl.TLSVersion,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """OpenSSL asks a certificate for its time in whole handshakes alone."""
    context = client_of(tmp_path, version, authority())
    with serving(mutual(tmp_path)) as server:
        session = session_of(of_tls(server), context)
        now = contexts.time()
        monkeypatch.setattr(contexts, "time", lambda: now + A_YEAR_S)
        with secured(of_tls(server), context, session) as (client, peer):
            assert peer.session_reused
            with contextlib.suppress(OSError):
                client.send(VERSIONS, 0)
                assert client.receive_frame() is None
        wait_until(lambda: "has expired" in caplog.text)


@pytest.mark.parametrize(
    "name",
    [
        b"localhos\0",
        b"\xff" * 9,
        b"../../etc",
        b"%n%s%n%s%",
        b"a\r\nbc\x1b[2J",
        b" " * 9,
    ],
)
def test_a_host_name_that_a_client_asks_for_decides_nothing_and_is_not_logged(
    tmp_path: Path, version: ssl.TLSVersion, name: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    hello = begun(version)
    assert hello.count(b"localhost") == 1
    with serving(tls_broker(tmp_path)) as server:
        with WireClient(of_tls(server)) as stranger:
            stranger.socket.sendall(hello.replace(b"localhost", name))
            assert stranger.socket.recv(5)[:1] in (b"\x16", b"\x15"), "a handshake or an alert"
        with WireClient(of_tls(server), trusting()) as client:
            assert client.ask(VERSIONS, 0).error_code == 0
    assert name.decode("latin-1") not in caplog.text
    assert not [one for one in caplog.records if one.levelno > logging.WARNING]
