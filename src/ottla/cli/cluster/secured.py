"""What a secured cluster on one machine needs: certificates, users, and the settings that use them.

All files are in one folder that only its owner may read. Brokers, controllers and ZooKeeper present
the same certificate, for localhost; brokers log in to each other, and clients to brokers, by SCRAM.
"""

import os
import secrets
import ssl
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

from ottla.base.extras import needed_for
from ottla.cli.zookeeper_access import read_zookeeper_access

FOLDER: Final = "security"
CLIENT_FILE: Final = "client.properties"
PROTOCOL: Final = "SASL_SSL"
MECHANISM: Final = "SCRAM-SHA-512"
MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
BROKER, ADMIN = "broker", "admin"
VALID: Final = timedelta(days=3650)
PASSWORD_SIZE: Final = 24
ITERATIONS: Final = 4096
ADDRESSES: Final = "bootstrap.servers"
SERVER: Final = "localhost"
"""The name in the certificate of the nodes."""


class LocalSecurity:
    """The security files of one cluster, in a folder below the cluster's."""

    def __init__(self, cluster: Path, *, has_zookeeper: bool) -> None:
        self.has_zookeeper = has_zookeeper
        self.folder = cluster / FOLDER
        self.broker_settings = self.folder / "broker.properties"
        self.client_settings = self.folder / CLIENT_FILE
        self.authority = self.folder / "authority.pem"
        self.server = self.folder / "localhost.pem"

    def make(self) -> None:
        """Creates the files that are missing; raises `UserError` without the package for
        certificates.
        """
        if self.broker_settings.exists():
            return
        with needed_for("--secure"):
            from ottla.testing.certificates import Certificates
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        Certificates(self.folder, VALID)
        self.server.chmod(0o600)
        for user in (ADMIN, BROKER):
            _write(self._password_file(user), [secrets.token_urlsafe(PASSWORD_SIZE)])
        _write(self.broker_settings, [f"{name}={text}" for name, text in self._broker().items()])

    def add_users(self, zookeeper: str) -> None:
        """Adds the users before a broker runs, since brokers log in to each other; raises
        `UserError`.
        """
        from ottla.cli.zookeeper_users import set_in_zookeeper

        access = read_zookeeper_access(self.broker_settings)
        for user in (ADMIN, BROKER):
            password = self.password_of(user)
            set_in_zookeeper(zookeeper, user, password, (MECHANISM,), ITERATIONS, access)

    def write_client_settings(self, addresses: Sequence[str]) -> str:
        """Writes the settings for Kafka's Java clients and Ottla, and below them those for
        librdkafka.
        """
        lines = [
            f"{ADDRESSES}={','.join(addresses)}",
            f"security.protocol={PROTOCOL}",
            f"sasl.mechanism={MECHANISM}",
            f"sasl.jaas.config={self._login(ADMIN)}",
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={self.authority}",
            "# librdkafka, instead of the last three:",
            f"# sasl.username={ADMIN}",
            f"# sasl.password={self.password_of(ADMIN)}",
            f"# ssl.ca.location={self.authority}",
        ]
        _write(self.client_settings, lines)
        return "\n".join(lines)

    def zookeeper_settings(self, port: int) -> dict[str, str]:
        """The settings of the ZooKeeper server, which accepts only clients that present the
        certificate.
        """
        return {
            "secureClientPort": str(port),
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "ssl.keyStore.location": str(self.server),
            "ssl.trustStore.location": str(self.authority),
            "ssl.clientAuth": "need",
        }

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.authority)
        context.load_cert_chain(self.server)
        return context

    def _broker(self) -> dict[str, str]:
        settings = {
            "security.inter.broker.protocol": PROTOCOL,
            "sasl.enabled.mechanisms": MECHANISM,
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            f"listener.name.{PROTOCOL.lower()}.{MECHANISM.lower()}.sasl.jaas.config": self._login(
                BROKER
            ),
            "ssl.keystore.location": str(self.server),
            "ssl.truststore.location": str(self.authority),
        }
        if not self.has_zookeeper:
            return settings | {
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                # Nodes present the certificate to controllers, since users are not known yet.
                "super.users": f"User:{BROKER};User:{ADMIN};User:CN={SERVER}",
            }
        return settings | {
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": f"User:{BROKER};User:{ADMIN}",
            "password.encoder.secret": secrets.token_urlsafe(PASSWORD_SIZE),
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.ssl.keystore.location": str(self.server),
            "zookeeper.ssl.truststore.location": str(self.authority),
            "zookeeper.set.acl": "true",
        }

    def _login(self, user: str) -> str:
        return f'{MODULE} required username="{user}" password="{self.password_of(user)}";'

    def password_of(self, user: str) -> str:
        """The password that was made for a user."""
        return self._password_file(user).read_text().strip()

    def _password_file(self, user: str) -> Path:
        return self.folder / f"{user}.password"


def _write(path: Path, lines: Sequence[str]) -> None:
    """Writes a file that only its owner can read, from the first byte on."""
    written = path.with_suffix(".tmp")
    written.unlink(missing_ok=True)
    descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
    written.replace(path)
