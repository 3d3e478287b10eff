"""Creates a user of a cluster before its first broker runs, by writing the password to ZooKeeper.

Brokers that log in to each other by SCRAM need one. Kafka's counterpart: `kafka-configs
--zookeeper`, which serves only this purpose too.
"""

import secrets
from collections.abc import Mapping, Sequence

from ottla.base.errors import ApiError, UserError
from ottla.base.scram import make_credential
from ottla.broker.security.registered import user_path
from ottla.cluster.access import Access
from ottla.cluster.session import SessionLostError, ZooKeeperSession
from ottla.controller.settings import change_settings
from ottla.zookeeper import paths
from ottla.zookeeper.entities import encode_scram

TIMEOUT_S = 10.0
SALT_SIZE = 16


def set_in_zookeeper(
    address: str,
    user: str,
    password: str,
    mechanisms: Sequence[str],
    iterations: int,
    access: Access | None = None,
) -> None:
    """Raises `UserError`."""
    if not paths.is_node_name(paths.sanitized(user)):
        raise UserError(f"{user!r} cannot be a user; name one that is neither empty nor . nor ..")
    new = {
        one: encode_scram(
            make_credential(one, password.encode(), secrets.token_bytes(SALT_SIZE), iterations)
        )
        for one in mechanisms
    }

    def change(settings: Mapping[str, str]) -> Mapping[str, str]:
        return {**settings, **new}

    session = ZooKeeperSession(
        address,
        round(TIMEOUT_S * 1000),
        changed=lambda _: None,
        lost=lambda: None,
        suspended=lambda _: None,
        access=access,
    )
    session.start(TIMEOUT_S)
    try:
        session.create_missing(paths.PERSISTENT)
        result = session.run(change_settings(user_path(user), change))
    except SessionLostError as error:
        raise UserError(f"zookeeper://{address}: the session has ended; try again") from error
    finally:
        session.close()
    if isinstance(result, ApiError):
        raise UserError(result.message)
