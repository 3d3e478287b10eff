"""A member of a cluster whose controller has no time: what it does with requests by itself."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.broker.waiting.rooms import Waiting
from ottla.controller.events import Answer, Request
from ottla.controller.operations import Steps
from ottla.controller.settings import Change, Refusals
from ottla.protocol.api_keys import ApiKey
from tests.support.lonely_member import ME, LonelyMember
from tests.support.patience import PATIENCE_S

T = TypeVar("T")

THROUGH_ITS_CLUSTER = {
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.METADATA,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    ApiKey.FIND_COORDINATOR,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.DELETE_RECORDS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.ELECT_LEADERS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
}
"""What a member asks its controller for, or sends others elsewhere with."""


class BusyMember(LonelyMember):
    """Requests for its controller are refused; what ZooKeeper is asked another thread does."""

    @property
    def known(self) -> dict[str, int]:
        """Fields of requests by which this broker takes them for its controller's, or its own."""
        epoch = self.broker_of(ME).epoch
        return {"controller_id": ME, "controller_epoch": 1, "leader": 2, "broker_epoch": epoch}

    def ask(self, requests: Sequence[Request]) -> Waiting[list[Answer]]:
        waiting: Waiting[list[Answer]] = Waiting()
        waiting.result = [Answer(error=ErrorCode.REQUEST_TIMED_OUT)] * len(requests)
        self._done.append(waiting)
        return waiting

    def run(self, make: Callable[[], Steps[T]]) -> Waiting[T]:
        return elsewhere(lambda: LonelyMember.run(self, make))

    def change_settings(
        self, changes: Mapping[str, Change], *, validate_only: bool = False
    ) -> Waiting[Refusals]:
        return elsewhere(
            lambda: LonelyMember.change_settings(self, changes, validate_only=validate_only)
        )


def elsewhere(deed: Callable[[], T]) -> T:
    """Done in a thread of its own, as by a member of a cluster: no slice has that time."""
    found: list[T] = []
    thread = threading.Thread(target=lambda: found.append(deed()))
    thread.start()
    thread.join(PATIENCE_S)
    return found[0]
