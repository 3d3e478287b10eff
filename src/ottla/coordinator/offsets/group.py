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
        """Whether the group has no members and may be deleted."""

    @property
    def is_vacant(self) -> bool:
        """Whether the group has no records, no members and no assigned member ids."""

    def replay(self, key: Message, value: Message | None) -> None:
        """Applies one of the group's records."""

    def copy(self) -> Self:
        """A copy to plan on; changes of the copy do not affect this group."""

    def tombstones(self) -> Iterable[Message]:
        """The keys of all records of an empty group; the group's own key is the last."""

    def timer_keys(self) -> Iterable[TimerKey]:
        """The keys of all deadlines that the group may have."""

    def admit_commit(self, claim: MemberClaim, draft: Draft, *, is_transactional: bool) -> None:
        """Raises `ApiError` unless the client may commit offsets; may extend its session."""

    def check_fetch(self, claim: MemberClaim) -> None:
        """Raises `ApiError` unless the client may see the group's offsets."""

    def check_offset_deletion(self) -> None:
        """Raises `ApiError` if the group's offsets may not be deleted."""

    def subscribed_topics(self) -> frozenset[str] | None:
        """The topics that members subscribe to; `None` if unknown."""

    def expiry(self, now_ms: int, retention_ms: int) -> Expiry | None:
        """The expiry rule for the group's offsets; `None` if none may expire."""

    def listing(self) -> GroupListing:
        """The group's entry in the list of groups."""
