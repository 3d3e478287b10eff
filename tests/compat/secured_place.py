"""A broker where nobody is let in unknown, for clients of every kind: logins, TLS, certificates.

Whoever comes as `ana`, by password, token or certificate, may write and read one topic.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from ottla.metadata.acls import Operation, PatternType, ResourceType
from ottla.metadata.deciding.topics import NewTopic
from tests.support.certificates import Authority, pkcs12_store
from tests.support.logins import PASSWORD, SASL, USER, login_broker, rule
from tests.support.serving import serving

TOPIC, HIDDEN, GROUP = "orders", "secrets", "billing"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
STORE_PASSWORD = "sesame"
PROTOCOLS = {
    "OPEN": "SASL_PLAINTEXT",
    "SECURE": "SASL_SSL",
    "MUTUAL": "SSL",
    "ELSEWHERE": "SASL_SSL",
}
"""Listeners. The certificate of ELSEWHERE is for another host."""

KEY = ec.generate_private_key(ec.SECP256R1())


@dataclass(frozen=True, slots=True)
class Way:
    """How a client comes in: by which listener, and with what it says of itself."""

    listener: str
    mechanism: str = ""
    password: str = PASSWORD
    is_trusting: bool = True
    """Whether it believes the authority that has signed the broker's certificate."""

    @property
    def protocol(self) -> str:
        return PROTOCOLS[self.listener]

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def has_certificate(self) -> bool:
        return self.listener == "MUTUAL" and bool(self.password)

    @property
    def name(self) -> str:
        return f"{self.listener}-{self.mechanism or 'certificate'}"


WAYS = [
    *(
        Way(listener, mechanism)
        for listener in ("OPEN", "SECURE")
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
    ),
    Way("MUTUAL"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuredPlace:
    ports: dict[str, int]
    folder: Path

    def address(self, way: Way) -> str:
        return f"localhost:{self.ports[way.listener]}"

    def trusted(self, way: Way) -> Path:
        return self.folder / ("ca.pem" if way.is_trusting else "another.pem")

    @property
    def certificate(self) -> Path:
        """With its key; `client.p12` is the same."""
        return self.folder / "client.pem"

    @staticmethod
    def token(way: Way) -> str:
        claims = {"sub": USER, "exp": time.time() + 600}
        key = KEY if way.password == PASSWORD else ec.generate_private_key(ec.SECP256R1())
        return jwt.encode(claims, key, algorithm="ES256", headers={"kid": "one"})


@contextmanager
def secured_place(folder: Path) -> Iterator[SecuredPlace]:
    authority, entry = Authority(), ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True)
    (folder / "keys.json").write_text(json.dumps({"keys": [{**entry, "kid": "one"}]}))
    client = authority.client(USER, "Acme")
    client.write(folder / "client.pem")
    (folder / "client.p12").write_bytes(pkcs12_store(client, STORE_PASSWORD, authority))
    Authority().write(folder / "another.pem")
    plain = SASL["listener_name_clients_plain_sasl_jaas_config"]
    broker = login_broker(
        folder / "d",
        listeners=",".join(f"{name}://:0" for name in PROTOCOLS),
        listener_security_protocol_map=",".join(map(":".join, PROTOCOLS.items())),
        sasl_enabled_mechanisms="PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        sasl_oauthbearer_jwks_endpoint_url=f"file://{folder / 'keys.json'}",
        **{
            f"listener_name_{name.lower()}_plain_sasl_jaas_config": plain
            for name in ("OPEN", "SECURE", "ELSEWHERE")
        },
        ssl_keystore_location=str(authority.server().write(folder / "server.pem")),
        ssl_truststore_location=str(authority.write(folder / "ca.pem")),
        listener_name_mutual_ssl_client_auth="required",
        listener_name_elsewhere_ssl_keystore_location=str(
            authority.client("elsewhere").write(folder / "elsewhere.pem")
        ),
        group_initial_rebalance_delay_ms="0",
        offsets_topic_num_partitions="1",
        ssl_principal_mapping_rules="RULE:^CN=(.*?),O=Acme$/$1/",
        authorizer_class_name=AUTHORIZER,
    )
    for name in (TOPIC, HIDDEN):
        broker.admin.create_topic(NewTopic(name=name, partition_count=1))
    broker.security.create_acls(
        [
            rule(ResourceType.TOPIC, TOPIC, Operation.READ),
            rule(ResourceType.TOPIC, TOPIC, Operation.WRITE),
            rule(ResourceType.GROUP, GROUP, Operation.READ, pattern=PatternType.PREFIXED),
        ]
    )
    with serving(broker) as server:
        ports = dict(zip(PROTOCOLS, (port for _, port in server.addresses), strict=True))
        yield SecuredPlace(ports=ports, folder=folder)
