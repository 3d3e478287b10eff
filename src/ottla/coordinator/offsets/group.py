"""The common interface of groups of both protocols. Kafka's counterpart: `Group`."""

from collections.abc import Iterable
from typing import Protocol, Self

from ottla.codec.schema import Message
from ottla.coordinator.deadlines import TimerKey
from ottla.coordinator.decision import Draft
from ottla.coordinator.offsets.committed_offsets import Expiry
from ottla.coordinator.requests import GroupListing, MemberClaim


class Group(Protocol):
    """A classic or a consumer group."""

    group_id: str

    @property
    def is_empty(self) -> bool:
        """Whether it has no members, so that it may be deleted."""

    @property
    def is_vacant(self) -> bool:
        """Whether nothing of it is written down, and no member is in it or about to be."""

    def replay(self, key: Message, value: Message | None) -> None:
        """Takes in one of its records."""

    def copy(self) -> Self:
        """The group to plan on: a change of it does not change this one."""

    def tombstones(self) -> Iterable[Message]:
        """The keys of all its records, the group's own last; only of an empty group."""

    def timer_keys(self) -> Iterable[TimerKey]:
        """The keys of all deadlines that it may have."""

    def admit_commit(self, claim: MemberClaim, draft: Draft, *, is_transactional: bool) -> None:
        """Raises `ApiError` unless the client may commit offsets; may extend its session."""

    def check_fetch(self, claim: MemberClaim) -> None:
        """Raises `ApiError` unless the client may see the group's offsets."""

    def check_offset_deletion(self) -> None:
        """Raises `ApiError` while no offsets may be deleted."""

    def subscribed_topics(self) -> frozenset[str] | None:
        """The topics that its members read; `None` when that is not known."""

    def expiry(self, now_ms: int, retention_ms: int) -> Expiry | None:
        """Which of its offsets are too old; `None` while members may need all."""

    def listing(self) -> GroupListing:
        """Its line in the list of all groups."""
