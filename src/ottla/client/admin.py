"""`ottla.Admin`: everything that is asked of a cluster, or changed in it, other than records.

Kafka's counterpart: `Admin`. Commands ask through it, and hold no request or response themselves.
"""

import time
from collections.abc import Mapping
from types import TracebackType

from ottla.base.addresses import parse_address
from ottla.client.administration.activity import ActivityAdmin
from ottla.client.administration.configs import ConfigAdmin
from ottla.client.administration.quotas import QuotaAdmin
from ottla.client.cluster import ClientSettings, Cluster
from ottla.client.security import parse_security

MAX_TIMESTAMP = -3
"""In the place of a time: the record with the largest timestamp."""


class Admin(ActivityAdmin, ConfigAdmin, QuotaAdmin):
    """An admin client; use it in a `with` statement.

    `target` is `HOST:PORT[,HOST:PORT]`, or a `Cluster`, which stays open. `settings` are a
    client's, by librdkafka's names. Every method raises `UserError`: `UnknownNameError` for what is
    not there, with the nearest names, `RefusedError` for what the broker refuses, and
    `UnreachableError`.

    >>> with ottla.Admin("localhost:9092") as admin:
    ...     admin.create_topic("orders", partitions=6)
    ...     admin.list_topics()
    ['orders']
    """

    def __init__(self, target: str | Cluster, settings: Mapping[str, str] | None = None) -> None:
        self._own: Cluster | None = None
        if isinstance(target, Cluster):
            super().__init__(target)
            return
        client = ClientSettings(security=parse_security(settings or {}))
        addresses = [parse_address(one) for one in target.split(",")]
        self._own = Cluster(addresses, client, sleep=time.sleep, topics=())
        super().__init__(self._own)

    def __enter__(self) -> "Admin":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections that were made for this admin."""
        if self._own is not None:
            self._own.close()
