"""The ISR of a partition, and the one that its leader has asked for.

Kafka's counterparts: `CommittedPartitionState`, `PendingExpandIsr`, `PendingShrinkIsr`.
"""

from dataclasses import replace

from ottla.base.values import dataclass
from ottla.registries.topics import RECOVERED


@dataclass(frozen=True, slots=True, kw_only=True)
class InSyncReplicas:
    """While a response is pending it is unknown which of the two is in effect."""

    committed: frozenset[int]
    asked: frozenset[int] | None = None
    recovery_state: int = RECOVERED

    @property
    def is_pending(self) -> bool:
        return self.asked is not None

    @property
    def maximal(self) -> frozenset[int]:
        """All replicas that may be in the ISR (KIP-497): each of them may be elected."""
        return self.committed if self.asked is None else self.committed | self.asked

    def asking_for(self, isr: frozenset[int]) -> "InSyncReplicas":
        return replace(self, asked=isr)

    def refused(self) -> "InSyncReplicas":
        """The controller says that nothing was written."""
        return replace(self, asked=None)
