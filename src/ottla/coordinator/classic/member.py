"""One member of a classic group. Kafka's counterpart: `ClassicGroupMember`."""

from collections.abc import Mapping
from dataclasses import replace

from ottla.base.values import dataclass
from ottla.coordinator.classic.requests import JoinRequest
from ottla.coordinator.offsets.records import GroupMetadataValue, MemberMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of a classic group, as it has last joined.

    `protocols` maps each supported protocol to the member's metadata, preferred protocol first.
    What changes with each generation is in the group, so that a generation of thousands begins
    without a new value for each member.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Mapping[str, bytes]

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
        """Restores a member from its group's record, which contains only the selected protocol."""
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
        )

    def with_request(self, request: JoinRequest) -> "Member":
        """The member with the values of a new JoinGroup request."""
        return replace(
            self,
            protocols=dict(request.protocols),
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
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

    def offers(self, protocols: Mapping[str, bytes]) -> bool:
        """Whether the member has exactly these protocols, in this order and with this metadata."""
        return list(self.protocols.items()) == list(protocols.items())
