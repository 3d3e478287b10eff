"""The security of a `LocalBroker`: its settings, users, and client settings."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.base.extras import needed_for
from ottla.client.administration.admin import Admin
from ottla.client.administration.security_values import UserScramCredentialUpsertion
from ottla.client.connecting.target import open_target
from ottla.config.listeners import PLAINTEXT
from ottla.embedded.log import Log

if TYPE_CHECKING:
    from ottla.testing.certificates import Certificates

USERS: Mapping[str, str] = {"tester": "secret"}
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
PLAIN_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


class LocalSecurity:
    """Creates certificates if the protocol uses TLS, and users if it uses SASL."""

    def __init__(self, protocol: str, directory: Path, users: Mapping[str, str]) -> None:
        """Raises `UserError` if certificates are needed and `cryptography` is missing."""
        self.protocol = protocol
        self.users = users
        self.certificates = _certificates(directory) if protocol.endswith("SSL") else None

    def settings(self) -> dict[str, str]:
        """The settings of the broker."""
        found: dict[str, str] = {}
        if self.certificates is not None:
            found |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self.certificates.server),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.certificates.authority),
            }
        if self.has_login:
            known = " ".join(f'user_{name}="{word}"' for name, word in self.users.items())
            jaas = f"listener.name.{self.protocol.lower()}.plain.sasl.jaas.config"
            found |= {
                "sasl.enabled.mechanisms": ",".join(["PLAIN", *MECHANISMS]),
                jaas: f"{PLAIN_LOGIN} required {known};",
            }
        return found

    @property
    def has_login(self) -> bool:
        return self.protocol.startswith("SASL")

    def set_passwords(self, log: Log) -> None:
        """Sets SCRAM passwords, which are stored in the log's directory."""
        if not self.has_login:
            return
        with open_target(log) as cluster:
            admin = Admin(cluster)
            known = admin.describe_user_scram_credentials()
            admin.alter_user_scram_credentials(
                UserScramCredentialUpsertion(user=name, mechanism=mechanism, password=password)
                for name, password in self.users.items()
                for mechanism in MECHANISMS
                if name not in known
            )

    def client_settings(self, user: str | None = None) -> dict[str, str]:
        """The settings of a client, by librdkafka's names; by default of the first user."""
        if self.protocol == PLAINTEXT:
            return {}
        name = next(iter(self.users)) if user is None else user
        found = {"security.protocol": self.protocol}
        if self.certificates is not None:
            own = str(self.certificates.made_for(name))
            found |= {
                "ssl.ca.location": str(self.certificates.authority),
                "ssl.certificate.location": own,
                "ssl.key.location": own,
            }
        if self.has_login:
            found |= {
                "sasl.mechanism": MECHANISMS[0],
                "sasl.username": name,
                "sasl.password": self.users[name],
            }
        return found


def _certificates(directory: Path) -> "Certificates":
    with needed_for("certificates for tests"):
        from ottla.testing.certificates import Certificates
    return Certificates(directory)
