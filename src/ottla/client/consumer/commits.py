"""Commits of a consumer: in the order of the calls, in a separate thread."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.partitions import TopicPartition
from ottla.client.administration.group_offsets import (
    NO_LONGER_MEMBER,
    Committed,
    GroupMemberId,
    ReadUpTo,
)
from ottla.client.consumer.errors import CommitFailedError
from ottla.client.consumer.shared_cluster import SharedCluster
from ottla.client.refusals import RefusedError

AGAIN = frozenset({ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.REBALANCE_IN_PROGRESS})
"""The group rebalanced meanwhile; the same member may commit in its new generation."""

TRIES = 20

STABLE_TRIES = 600
STABLE_PAUSE_S = 0.1
"""For as long as Kafka's consumer waits for a transaction to end."""


class Commits:
    """Commits of one group.

    `identity` raises `ApiError` for a consumer that should be a member but is not.
    """

    def __init__(
        self,
        group: str,
        cluster: SharedCluster,
        identity: Callable[[], GroupMemberId],
        retry_backoff_s: float,
        store: Callable[[Mapping[TopicPartition, int]], None] = lambda _: None,
    ) -> None:
        """`store` is called with the committed offsets."""
        self._group = group
        self._cluster = cluster
        self._identity = identity
        self._retry_backoff_s = retry_backoff_s
        self._store = store
        self._known: dict[TopicPartition, int] = {}
        """Offsets that need not be committed again."""
        self._thread = ThreadPoolExecutor(1, "ottla commits")

    def later(self, offsets: Mapping[TopicPartition, ReadUpTo]) -> "Future[None]":
        """Commits later; the future raises `CommitFailedError` and `UserError`."""
        return self._thread.submit(self._commit, dict(offsets))

    def committed(
        self, places: Collection[TopicPartition], member: GroupMemberId
    ) -> dict[TopicPartition, Committed] | None:
        """The group's offsets; `None` while an open transaction is about to move one of them.

        Who began before that would read again what the transaction counts as done, whatever the
        isolation level.
        """
        try:
            return self._cluster.committed(self._group, places, member=member)
        except ApiError as error:
            if error.code is ErrorCode.UNSTABLE_OFFSET_COMMIT:
                return None
            raise RefusedError(f"group {self._group}", error) from error

    def stable(
        self, places: Collection[TopicPartition], member: GroupMemberId
    ) -> dict[TopicPartition, Committed]:
        """As `committed`, but waits for open transactions; raises `RefusedError`."""
        for _ in range(STABLE_TRIES):
            if (found := self.committed(places, member)) is not None:
                return found
            self._cluster.sleep(STABLE_PAUSE_S)
        raise RefusedError(f"group {self._group}", ApiError(ErrorCode.UNSTABLE_OFFSET_COMMIT))

    def after(self, deed: Callable[[], None]) -> None:
        """Calls a function once all earlier commits are done."""
        self._thread.submit(deed)

    def found(self, place: TopicPartition, offset: int) -> None:
        """Records what is already committed, according to the coordinator."""
        self._known.setdefault(place, offset)

    def forget(self, places: Iterable[TopicPartition]) -> None:
        """Forgets partitions that others may commit from now on."""
        for one in places:
            self._known.pop(one, None)

    def close(self) -> None:
        """Waits for pending commits."""
        self._thread.shutdown(wait=True)

    def _commit(self, offsets: dict[TopicPartition, ReadUpTo]) -> None:
        changed = {one: at for one, at in offsets.items() if self._known.get(one) != at.offset}
        if not changed:
            return
        entries = [
            Committed(
                group=self._group,
                topic=place.topic,
                partition=place.partition,
                offset=at.offset,
                leader_epoch=at.epoch,
            )
            for place, at in changed.items()
        ]
        for tries_left in reversed(range(TRIES)):
            try:
                self._cluster.commit(entries, self._identity(), self._group)
                break
            except ApiError as error:
                if error.code in NO_LONGER_MEMBER or (error.code in AGAIN and not tries_left):
                    raise CommitFailedError(
                        f"group {self._group}: offsets were not committed ({error.code.name}): "
                        "the group gave the partitions to another member; lower max.poll.records, "
                        "or raise max.poll.interval.ms"
                    ) from error
                if error.code not in AGAIN:
                    raise RefusedError(f"group {self._group}: commit", error) from error
                time.sleep(self._retry_backoff_s)
        self._store({place: at.offset for place, at in changed.items()})
        self._known.update((place, at.offset) for place, at in changed.items())
