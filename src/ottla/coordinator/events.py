"""Events reported with a decision: changes of members, rebalances and timeouts."""

from ottla.base.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberJoined:
    group: str
    member: str

    @property
    def message(self) -> str:
        return f"group {self.group}: {self.member} joins"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberLeft:
    group: str
    member: str
    reason: str

    @property
    def message(self) -> str:
        return f"group {self.group}: {self.member} is no longer a member: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceBegan:
    group: str
    generation: int
    member_count: int
    reason: str

    @property
    def message(self) -> str:
        return (
            f"group {self.group}: rebalance of generation {self.generation} with "
            f"{self.member_count} members: {self.reason}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceCompleted:
    """In a consumer group (KIP-848) `generation` is the group epoch; members reconcile later."""

    group: str
    generation: int
    member_count: int

    @property
    def message(self) -> str:
        return f"group {self.group}: generation {self.generation} has {self.member_count} members"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionTimedOut:
    transactional_id: str
    producer_id: int
    timeout_ms: int
    partition_count: int

    @property
    def message(self) -> str:
        return (
            f"transaction {self.transactional_id} of producer {self.producer_id} is aborted: it "
            f"was open for longer than its timeout of {self.timeout_ms} ms, "
            f"in {self.partition_count} partitions"
        )
