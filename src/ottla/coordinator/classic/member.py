"""One member of a classic group. Kafka's counterpart: `ClassicGroupMember`."""

from collections.abc import Collection, Hashable, Mapping
from dataclasses import replace

from ottla.base.values import dataclass
from ottla.coordinator.classic.requests import JoinRequest
from ottla.coordinator.offsets.records import GroupMetadataValue, MemberMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """`protocols` are the ones it can use with its metadata for each, the preferred one first.

    `is_new`: it has not been through a rebalance yet, and so knows no id to send heartbeats with.
    The pending ids are those of its join and its sync that wait for an answer.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Mapping[str, bytes]
    assignment: bytes = b""
    is_new: bool = False
    pending_join: Hashable | None = None
    pending_sync: Hashable | None = None

    @classmethod
    def from_request(cls, member_id: str, request: JoinRequest) -> "Member":
        return cls(
            member_id=member_id,
            instance_id=request.instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocols=dict(request.protocols),
        )

    @classmethod
    def from_record(cls, record: MemberMetadata, group: GroupMetadataValue) -> "Member":
        """A member as its group was written down; only the chosen protocol is known."""
        rebalance_timeout_ms = record.rebalance_timeout_ms
        return cls(
            member_id=record.member_id,
            instance_id=record.group_instance_id,
            client_id=record.client_id,
            client_host=record.client_host,
            rebalance_timeout_ms=record.session_timeout_ms
            if rebalance_timeout_ms == -1
            else rebalance_timeout_ms,
            session_timeout_ms=record.session_timeout_ms,
            protocols={group.protocol or "": bytes(record.subscription)},
            assignment=bytes(record.assignment),
        )

    def with_request(self, request: JoinRequest, pending_id: Hashable) -> "Member":
        """The member as its new join describes it."""
        return replace(
            self,
            protocols=dict(request.protocols),
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            pending_join=pending_id,
        )

    def to_record(self, protocol: str, assignment: bytes) -> MemberMetadata:
        return MemberMetadata(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            subscription=self.protocols[protocol],
            assignment=assignment,
        )

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def has_joined(self) -> bool:
        """Whether it takes part in the present rebalance."""
        return self.pending_join is not None

    @property
    def is_excused(self) -> bool:
        """Whether it need send no heartbeat, since it waits for the coordinator.

        A new member must: nothing else would show that its client has gone.
        """
        return not self.is_new and (self.pending_join is not None or self.pending_sync is not None)

    def offers(self, protocols: Mapping[str, bytes]) -> bool:
        """Whether these are its protocols, in the same order and with the same metadata."""
        return list(self.protocols.items()) == list(protocols.items())

    def vote(self, candidates: Collection[str]) -> str:
        """The candidate that it prefers."""
        return next(name for name in self.protocols if name in candidates)
