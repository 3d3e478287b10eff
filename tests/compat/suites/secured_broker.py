"""A broker of TLS, logins and rules for the suites of others, and what their clients are told."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import ottla
from ottla.base.scram import HASHES
from tests.integration.cli.support import serving
from tests.support.certificates import Authority, pkcs12_store
from tests.support.ports import free_port
from tests.support.server_properties import write_properties

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
USER, PASSWORD = "tester", "a password of tests"
KEY_PASSWORD = "opens the key"
PROTOCOLS = ("SSL", "SASL_SSL")
PLAIN_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
OPEN_TO_ALL = {"authorizer.class.name": AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
"""Everybody may do everything until there is a rule: suites that make rules expect that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuredBroker:
    """`addresses` by protocol; files of PEM, of a client that the broker trusts by TLS."""

    addresses: Mapping[str, str]
    authority: Path
    certificate: Path
    key: Path
    store: Path
    """The same as PKCS#12, locked with `KEY_PASSWORD`."""

    def librdkafka(self, protocol: str, mechanism: str = "") -> dict[str, str]:
        """The settings of a client, in librdkafka's words."""
        settings = {
            "bootstrap.servers": self.addresses[protocol],
            "security.protocol": protocol,
            "ssl.ca.location": str(self.authority),
            "ssl.certificate.location": str(self.certificate),
            "ssl.key.location": str(self.key),
            "ssl.key.password": KEY_PASSWORD,
        }
        if mechanism:
            login = {"sasl.mechanism": mechanism, "sasl.username": USER, "sasl.password": PASSWORD}
            settings |= login
        return settings


@contextmanager
def secured_broker(scratch: Path, settings: Mapping[str, str]) -> Iterator[SecuredBroker]:
    """A fresh `ottla serve`: mutual TLS by one listener, logins over TLS by the other."""
    authority, data_dir = Authority(), scratch / "data"
    with ottla.open(data_dir) as log, ottla.Admin(log) as admin:
        admin.alter_user_scram_credentials(
            [
                ottla.UserScramCredentialUpsertion(user=USER, mechanism=one, password=PASSWORD)
                for one in HASHES
            ]
        )
    client = authority.client(USER)
    addresses = {protocol: f"localhost:{free_port()}" for protocol in PROTOCOLS}
    told = {
        **OPEN_TO_ALL,
        "listeners": ",".join(
            f"{protocol}://{one.replace('localhost', '127.0.0.1')}"
            for protocol, one in addresses.items()
        ),
        "advertised.listeners": ",".join(f"{key}://{one}" for key, one in addresses.items()),
        "ssl.keystore.location": str(authority.server().write(scratch / "server.pem")),
        "ssl.truststore.location": str(authority.write(scratch / "authority.pem")),
        "listener.name.ssl.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(("PLAIN", *HASHES)),
        "listener.name.sasl_ssl.plain.sasl.jaas.config": (
            f'{PLAIN_LOGIN} required user_{USER}="{PASSWORD}";'
        ),
        **settings,
    }
    file = write_properties(scratch / "server.properties", told)
    certificate, key, store = (scratch / f"client.{end}" for end in ("pem", "key", "p12"))
    certificate.write_text(client.certificate_pem)
    key.write_text(client.key_pem(KEY_PASSWORD))
    store.write_bytes(pkcs12_store(client, KEY_PASSWORD, authority))
    with serving(None, "--data-dir", str(data_dir), "--config", str(file)):
        yield SecuredBroker(
            addresses=addresses,
            authority=scratch / "authority.pem",
            certificate=certificate,
            key=key,
            store=store,
        )
