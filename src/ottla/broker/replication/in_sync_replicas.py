"""The ISR of a partition, and the ISR that its leader has requested.

Kafka's counterparts: `CommittedPartitionState`, `PendingExpandIsr`, `PendingShrinkIsr`.
"""

from dataclasses import replace

from ottla.base.values import dataclass
from ottla.zookeeper.topics import RECOVERED


@dataclass(frozen=True, slots=True, kw_only=True)
class InSyncReplicas:
    """Both ISRs; while a response is pending it is unknown which one is in effect."""

    committed: frozenset[int]
    asked: frozenset[int] | None = None
    recovery_state: int = RECOVERED

    @property
    def is_pending(self) -> bool:
        return self.asked is not None

    @property
    def maximal(self) -> frozenset[int]:
        """All replicas that may be in the ISR, any of which may be elected (KIP-497)."""
        return self.committed if self.asked is None else self.committed | self.asked

    def asking_for(self, isr: frozenset[int]) -> "InSyncReplicas":
        return replace(self, asked=isr)

    def refused(self) -> "InSyncReplicas":
        """Returns the state after the controller has refused the request."""
        return replace(self, asked=None)
