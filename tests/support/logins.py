"""Brokers whose clients must log in, and a client that does so request by request."""

from pathlib import Path
from typing import Any

from ottla.base.scram import CODES_OF_MECHANISMS, salt_password
from ottla.broker.broker import Broker
from ottla.broker.security.users import ScramUpsertion
from ottla.client.connecting.scram import ScramClient
from ottla.metadata.acls import (
    Acl,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.patience import PATIENCE_S
from tests.support.serving import WireClient, open_broker

USER, PASSWORD = "ana", 'pot "and" kettle'
SALT = b"sixteen bytes it"
JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="admin" password="x" user_ana="pot \\"and\\" kettle" user_bob="bobs secret";'
)
SASL = {
    "listeners": "CLIENTS://:0",
    "listener_security_protocol_map": "CLIENTS:SASL_PLAINTEXT",
    "sasl_enabled_mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener_name_clients_plain_sasl_jaas_config": JAAS,
    "connection_failed_authentication_delay_ms": "0",
    "group_initial_rebalance_delay_ms": "0",
    "ottla_authentication_timeout_ms": str(PATIENCE_S * 1000),
}
"""Settings with `_` for `.`: names and passwords of PLAIN are above."""


def rule(
    kind: ResourceType,
    name: str,
    operation: Operation,
    *,
    pattern: PatternType = PatternType.LITERAL,
    permission: Permission = Permission.ALLOW,
) -> Acl:
    """A rule about the user `USER`, on any host."""
    return Acl(
        ResourcePattern(kind, pattern, name), Entry(f"User:{USER}", "*", operation, permission)
    )


def login_broker(directory: Path, **settings: str) -> Broker:
    """A broker that knows the same two users by SCRAM as by PLAIN."""
    broker = open_broker(directory, **{**SASL, **settings})
    for mechanism in CODES_OF_MECHANISMS:
        set_password(broker, USER, PASSWORD, mechanism)
        set_password(broker, "bob", "bobs secret", mechanism)
    return broker


def set_password(
    broker: Broker, user: str, password: str, mechanism: str = "SCRAM-SHA-256"
) -> None:
    salted = salt_password(mechanism, password.encode(), SALT, 4096)
    results = broker.security.alter_users(
        [
            ScramUpsertion(
                user=user,
                mechanism_code=CODES_OF_MECHANISMS[mechanism],
                iterations=4096,
                salt=SALT,
                salted_password=salted,
            )
        ]
    )
    assert results == {user: None}


def shake_hands(client: WireClient, mechanism: str, version: int = 1) -> Any:
    return client.ask(SaslHandshakeRequest(mechanism=mechanism), version)


def plain_text(user: str = USER, password: str = PASSWORD) -> bytes:
    return f"\0{user}\0{password}".encode()


def authenticate(client: WireClient, text: bytes, version: int = 2) -> Any:
    return client.ask(SaslAuthenticateRequest(auth_bytes=text), version)


def log_in(client: WireClient, mechanism: str = "PLAIN", user: str = USER) -> Any:
    """The last answer of a login that is right."""
    password = PASSWORD if user == USER else "bobs secret"
    assert shake_hands(client, mechanism).error_code == 0
    if mechanism == "PLAIN":
        return authenticate(client, plain_text(user, password))
    scram = ScramClient(mechanism, user, password, "a-nonce-of-the-client")
    challenge = authenticate(client, scram.first())
    return authenticate(client, scram.prove(bytes(challenge.auth_bytes)))
