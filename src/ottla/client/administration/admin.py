"""`ottla.Admin`: queries and changes everything in a cluster other than records.

Kafka's counterpart: `Admin`. Commands use it, and contain no requests or responses themselves.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ottla.base.closing import Closing
from ottla.base.errors import UserError
from ottla.base.unknown_arguments import answers_unknown_arguments
from ottla.client.administration.activity import ActivityAdmin
from ottla.client.administration.configs import ConfigAdmin
from ottla.client.administration.quorum import QuorumAdmin
from ottla.client.administration.quotas import QuotaAdmin
from ottla.client.administration.replicas import ReplicaAdmin
from ottla.client.administration.security import SecurityAdmin
from ottla.client.connecting.cluster import Cluster
from ottla.client.connecting.settings import admin_settings
from ottla.runtime.loops import check_may_block

if TYPE_CHECKING:
    from ottla.client.connecting.target import Target
    from ottla.config.typed_settings import AdminSettings

MAX_TIMESTAMP = -3
"""Instead of a time: the record with the largest timestamp."""


class Admin(
    ActivityAdmin, ConfigAdmin, QuorumAdmin, QuotaAdmin, ReplicaAdmin, SecurityAdmin, Closing
):
    """An admin client; use it in a `with` statement.

    `target` is an open `Log`, a data directory, or `HOST:PORT[,HOST:PORT]` with a client's
    `settings`, by Kafka's names; a `Log` or a `Cluster` stays open. Every method raises
    `UserError`: `UnknownNameError` for what does not exist, with the nearest names, `RefusedError`
    for what the broker refuses, and `UnreachableError`. With `read_only` nothing is written or
    locked: a broker, also Apache Kafka, may run on the directory. Each answer is read from the
    files as they are then, and what would change them raises `UserError`; several paths are the log
    directories of one broker, as in Kafka's `log.dirs`.

    >>> with ottla.Admin(log) as admin:
    ...     admin.create_topic("teas", partitions=6)
    ...     admin.list_topics()
    ['orders', 'teas']
    >>> with ottla.open(directory) as log, ottla.Admin(directory, read_only=True) as admin:
    ...     log.create_topic("teas")
    ...     admin.list_topics()
    ['teas']
    """

    @answers_unknown_arguments
    def __init__(
        self,
        target: "Target | Cluster | Sequence[str]",
        settings: "AdminSettings | Mapping[str, Any] | None" = None,
        *,
        read_only: bool = False,
    ) -> None:
        """Raises `UserError` for a directory that does not exist, and for an invalid setting."""
        self._own: Cluster | None = None
        if isinstance(target, Cluster) and not read_only:
            super().__init__(target)
            return
        check_may_block("ottla.Admin", "ottla.aio.Admin")
        self._own = _open_to_read(target, settings) if read_only else _open(target, settings)
        super().__init__(self._own)

    def close(self) -> None:
        """Closes the connections that were made for this admin.

        >>> admin.close()
        """
        if self._own is not None:
            self._own.close()


def _open(target: Any, settings: Mapping[str, Any] | None) -> Cluster:
    from ottla.client.connecting.target import open_target

    return open_target(target, admin_settings(settings))


def _open_to_read(paths: Any, settings: Mapping[str, Any] | None) -> Cluster:
    from ottla.client.connecting.read_only import open_to_follow
    from ottla.embedded.paths import paths_of

    if settings:
        raise UserError("settings are for connections to brokers; omit them with read_only")
    return open_to_follow(paths_of(paths))
