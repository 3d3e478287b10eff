"""Connections and logins to ZooKeeper, and the ACLs of nodes created there.

Kafka's counterparts: `KafkaServer.zkClientConfigFromKafkaConfig`, `ZkData.defaultAcls`.
"""

import socket
import ssl
from collections.abc import Callable
from typing import Any

from ottla.base.errors import UserError
from ottla.base.extras import needed_for
from ottla.base.tls import in_tls
from ottla.base.values import dataclass
from ottla.zookeeper import paths

NewContext = Callable[[], ssl.SSLContext]
"""Creates a context from the current key and certificate files, which may change at run time."""


class SecuredConnections:
    """Replaces kazoo's connections, which also trust all authorities of the system.

    `failure` is the last connection error, which kazoo does not report.
    """

    def __init__(self, tls: NewContext) -> None:
        self._tls = tls
        self.failure: OSError | None = None

    def open(
        self, address: tuple[str, int], hostname: str, timeout: float, **_: object
    ) -> ssl.SSLSocket:
        plain = socket.create_connection(address, timeout)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return in_tls(self._tls(), plain, server_hostname=hostname)
        except BaseException as error:
            self.failure = error if isinstance(error, OSError) else None
            plain.close()
            raise


def handler_of(secured: SecuredConnections | None) -> Any:
    """The handler that opens kazoo's connections."""
    from kazoo.handlers.threading import SequentialThreadingHandler

    handler = SequentialThreadingHandler()
    if secured is not None:
        handler.create_connection = secured.open
    return handler


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestLogin:
    """A login with SASL DIGEST-MD5; `source` says where it is configured."""

    user: str
    password: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How to connect to ZooKeeper.

    `tls` creates the context of each connection, `None` for plain ones. `sets_acl`: created nodes
    belong to the logged-in user (zookeeper.set.acl).
    """

    tls: NewContext | None = None
    login: DigestLogin | None = None
    sets_acl: bool = False

    def connections(self) -> SecuredConnections | None:
        return None if self.tls is None else SecuredConnections(self.tls)

    def options(self, secured: SecuredConnections | None) -> dict[str, Any]:
        """Arguments of a `KazooClient`; raises `UserError` if a package is missing."""
        options = {"handler": handler_of(secured)}
        if self.login is None:
            return options
        with needed_for(self.login.source):
            import puresasl  # noqa: F401  # kazoo logs in with it
        login = {"username": self.login.user, "password": self.login.password}
        return {**options, "sasl_options": {"mechanism": "DIGEST-MD5", **login}}

    def refused(self, place: str) -> UserError:
        login = self.login
        assert login is not None
        return UserError(
            f"{place}: ZooKeeper rejects the login of {login.user}; correct user and password in "
            f"{login.source}, or in ZooKeeper's own JAAS file"
        )

    def acl_of(self, path: str) -> list[Any] | None:
        """The ACL of a new node; `None` if everyone may do everything.

        The creator may do everything; others may read the node unless it is secret.
        """
        if not self.sets_acl or path == paths.CONSUMERS:
            return None
        from kazoo.security import CREATOR_ALL_ACL, READ_ACL_UNSAFE

        is_secret = path.startswith(paths.SECRETS)
        return [*CREATOR_ALL_ACL, *([] if is_secret else READ_ACL_UNSAFE)]
