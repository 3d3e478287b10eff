"""`ottla.aio.Admin`: the admin client for an event loop.

Each call runs in a thread of the loop's executor, one after the other, since connections are for
one thread at a time.
"""

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from ottla.base.closing import AsyncClosing
from ottla.base.unknown_arguments import answers_unknown_arguments
from ottla.client.administration import admin
from ottla.client.connecting.cluster import Cluster

if TYPE_CHECKING:
    from ottla.client.connecting.target import Target
    from ottla.config.typed_settings import AdminSettings

P = ParamSpec("P")
T = TypeVar("T")


def _in_thread(
    method: Callable[Concatenate[admin.Admin, P], T],
) -> Callable[Concatenate["Admin", P], Coroutine[Any, Any, T]]:
    @wraps(method)
    async def ask(self: "Admin", /, *args: P.args, **kwargs: P.kwargs) -> T:
        async with self._turn:
            opened = await self._opened()
            return await asyncio.to_thread(method, opened, *args, **kwargs)

    # Its examples are those of the method, awaited.
    ask.__doc__ = re.sub(r"\badmin\.(?=\w+\()", "await admin.", method.__doc__ or "")
    return ask


class Admin(AsyncClosing):
    """`ottla.Admin`, whose methods are coroutines. Use it in an `async with` statement.

    >>> async with ottla.aio.Admin(log) as admin:
    ...     await admin.create_topic("teas", partitions=6)
    ...     await admin.list_topics()
    ['orders', 'teas']
    """

    @answers_unknown_arguments
    def __init__(
        self,
        target: "Target | Cluster | Sequence[str]",
        settings: "AdminSettings | Mapping[str, Any] | None" = None,
        *,
        read_only: bool = False,
    ) -> None:
        """Opens nothing before the first call, which then raises as `ottla.Admin` does."""
        self._open = partial(admin.Admin, target, settings, read_only=read_only)
        self._admin: admin.Admin | None = None
        self._turn = asyncio.Lock()

    async def close(self) -> None:
        """Closes the connections that were made for this admin.

        >>> await admin.close()
        """
        async with self._turn:
            if self._admin is not None:
                await asyncio.to_thread(self._admin.close)

    async def _opened(self) -> admin.Admin:
        if self._admin is None:
            self._admin = await asyncio.to_thread(self._open)
        return self._admin

    abort_at = _in_thread(admin.Admin.abort_at)
    add_raft_voter = _in_thread(admin.Admin.add_raft_voter)
    alter_configs = _in_thread(admin.Admin.alter_configs)
    alter_group_offsets = _in_thread(admin.Admin.alter_group_offsets)
    alter_partition_reassignments = _in_thread(admin.Admin.alter_partition_reassignments)
    alter_quotas = _in_thread(admin.Admin.alter_quotas)
    alter_user_scram_credentials = _in_thread(admin.Admin.alter_user_scram_credentials)
    alter_share_group_offsets = _in_thread(admin.Admin.alter_share_group_offsets)
    bounds = _in_thread(admin.Admin.bounds)
    broker_settings = _in_thread(admin.Admin.broker_settings)
    cluster_id = _in_thread(admin.Admin.cluster_id)
    coordinator_view = _in_thread(admin.Admin.coordinator_view)
    create_acls = _in_thread(admin.Admin.create_acls)
    create_delegation_token = _in_thread(admin.Admin.create_delegation_token)
    create_partitions = _in_thread(admin.Admin.create_partitions)
    create_topic = _in_thread(admin.Admin.create_topic)
    create_topics = _in_thread(admin.Admin.create_topics)
    delete_acls = _in_thread(admin.Admin.delete_acls)
    delete_group_offsets = _in_thread(admin.Admin.delete_group_offsets)
    delete_groups = _in_thread(admin.Admin.delete_groups)
    delete_records = _in_thread(admin.Admin.delete_records)
    delete_share_group_offsets = _in_thread(admin.Admin.delete_share_group_offsets)
    delete_topics = _in_thread(admin.Admin.delete_topics)
    describe_acls = _in_thread(admin.Admin.describe_acls)
    describe_all_groups = _in_thread(admin.Admin.describe_all_groups)
    describe_cluster = _in_thread(admin.Admin.describe_cluster)
    describe_configs = _in_thread(admin.Admin.describe_configs)
    describe_delegation_token = _in_thread(admin.Admin.describe_delegation_token)
    describe_features = _in_thread(admin.Admin.describe_features)
    describe_groups = _in_thread(admin.Admin.describe_groups)
    describe_producers = _in_thread(admin.Admin.describe_producers)
    describe_quorum = _in_thread(admin.Admin.describe_quorum)
    describe_quotas = _in_thread(admin.Admin.describe_quotas)
    describe_topics = _in_thread(admin.Admin.describe_topics)
    describe_transactions = _in_thread(admin.Admin.describe_transactions)
    describe_user_scram_credentials = _in_thread(admin.Admin.describe_user_scram_credentials)
    eligible_leader_replicas = _in_thread(admin.Admin.eligible_leader_replicas)
    elect_leaders = _in_thread(admin.Admin.elect_leaders)
    existing = _in_thread(admin.Admin.existing)
    existing_of = _in_thread(admin.Admin.existing_of)
    expire_delegation_token = _in_thread(admin.Admin.expire_delegation_token)
    fence = _in_thread(admin.Admin.fence)
    group_lag = _in_thread(admin.Admin.group_lag)
    group_offsets = _in_thread(admin.Admin.group_offsets)
    held_partitions = _in_thread(admin.Admin.held_partitions)
    known_bounds = _in_thread(admin.Admin.known_bounds)
    list_groups = _in_thread(admin.Admin.list_groups)
    list_offsets = _in_thread(admin.Admin.list_offsets)
    list_partition_reassignments = _in_thread(admin.Admin.list_partition_reassignments)
    list_topics = _in_thread(admin.Admin.list_topics)
    list_transactions = _in_thread(admin.Admin.list_transactions)
    log_directories = _in_thread(admin.Admin.log_directories)
    move_partitions = _in_thread(admin.Admin.move_partitions)
    open_transactions = _in_thread(admin.Admin.open_transactions)
    partitions = _in_thread(admin.Admin.partitions)
    places = _in_thread(admin.Admin.places)
    producers_of = _in_thread(admin.Admin.producers_of)
    records_in_flight = _in_thread(admin.Admin.records_in_flight)
    remove_raft_voter = _in_thread(admin.Admin.remove_raft_voter)
    renew_delegation_token = _in_thread(admin.Admin.renew_delegation_token)
    replica_end_offsets = _in_thread(admin.Admin.replica_end_offsets)
    share_group_offsets = _in_thread(admin.Admin.share_group_offsets)
    timestamp_at = _in_thread(admin.Admin.timestamp_at)
    topic_activity = _in_thread(admin.Admin.topic_activity)
    topic_overrides = _in_thread(admin.Admin.topic_overrides)
    topic_settings = _in_thread(admin.Admin.topic_settings)
    topics_settings = _in_thread(admin.Admin.topics_settings)
    unregister_broker = _in_thread(admin.Admin.unregister_broker)
    unregister_controller = _in_thread(admin.Admin.unregister_controller)
    update_features = _in_thread(admin.Admin.update_features)
