"""Peers that say garbage in TLS: instead of a handshake, in the middle of it, and after it."""

import contextlib
import socket
import ssl
from collections.abc import Iterator
from functools import cache

from ottla.config.broker import broker_config
from ottla.config.listeners import Listener
from ottla.server.network.acceptors import Arrival
from ottla.server.tls.contexts import Tls, make_tls
from ottla.server.tls.handshakes import Handshake
from ottla.server.tls.transport import RECORD_SIZE, SLICE_SIZE, transport_of
from tests.support.asking import PEER
from tests.support.certificates import authority, client_context

LISTENER = Listener(name="OUTSIDE", address=("127.0.0.1", 0), protocol="SSL")
ARRIVAL = Arrival(peer_name="10.0.0.9:5000", client=PEER, came_ms=0)
MAX_STEPS = 10


@cache
def server_tls() -> Tls:
    identity = authority().server()
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": identity.key_pem(),
        "ssl.keystore.certificate.chain": identity.certificate_pem,
    }
    return make_tls(LISTENER, broker_config(settings))


def tls(data: bytes) -> None:
    """The first byte says how far the handshake comes before the garbage."""
    steps, garbage = (data[0] % 4, data[1:]) if data else (0, b"")
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    handshake = Handshake(ours, ARRIVAL, server_tls(), 0)
    try:
        with theirs:
            for said in _first_steps(theirs, steps):
                theirs.sendall(said)
                handshake.carry_on()
            theirs.sendall(garbage)
            theirs.shutdown(socket.SHUT_WR)
            _hear(handshake)
    finally:
        handshake.peer.close()


def _first_steps(theirs: socket.socket, steps: int) -> Iterator[bytes]:
    """What a client of TLS says in so many steps: 3 are a whole handshake."""
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context(authority()).wrap_bio(received, sent, server_hostname="localhost")
    for _ in range(steps):
        with contextlib.suppress(BlockingIOError):
            received.write(theirs.recv(SLICE_SIZE))
        with contextlib.suppress(ssl.SSLWantReadError):
            client.do_handshake()
        yield sent.read()


def _hear(handshake: Handshake) -> None:
    """A peer that has hung up: its handshake fails, or its records are taken or refused."""
    for _ in range(MAX_STEPS):
        if not isinstance(handshake.outcome, int):
            break
        handshake.carry_on()
    if handshake.outcome is not None:
        assert isinstance(handshake.outcome, str), "it waits for one who has hung up"
        return
    peer = handshake.peer
    assert isinstance(peer, ssl.SSLSocket)
    transport = transport_of(peer, memoryview(bytearray(SLICE_SIZE)))
    space = memoryview(bytearray(RECORD_SIZE))
    with contextlib.suppress(OSError):
        assert not transport.recv_into(space), "records that nobody encrypted were taken"


def first_words() -> bytes:
    """A client's first message, to be changed."""
    sent = ssl.MemoryBIO()
    client = client_context(authority()).wrap_bio(
        ssl.MemoryBIO(), sent, server_hostname="localhost"
    )
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return sent.read()
