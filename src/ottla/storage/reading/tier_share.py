"""What a plan has found of a partition's uploads, for the tasks that read a part of it each.

So a task reads its own objects, and not all records about uploads again.
"""

from dataclasses import replace

from ottla.base.values import dataclass
from ottla.storage.remote.lineage import Chain


@dataclass(frozen=True, slots=True, kw_only=True)
class TierShare:
    """What another process needs to read some offsets of a partition, without the records about
    its uploads: those that have these offsets.
    """

    directory: str
    chain: Chain | None
    """`None` if the tier adds nothing to the partition."""
    first_local: int | None
    made: tuple[tuple[str, bytes], ...] = ()
    """The files that a gone folder would have, by name."""

    def within(self, from_offset: int, until_offset: int) -> "TierShare":
        """What a reader of these offsets alone needs of it."""
        found = self.chain
        return replace(self, chain=found and found.within(from_offset, until_offset))

    def joined(self, other: "TierShare") -> "TierShare":
        """What a reader of both ranges needs; `other` is of the same plan."""
        if self.chain is None or other.chain is None:
            return self if other.chain is None else other
        return replace(self, chain=self.chain.joined(other.chain))
