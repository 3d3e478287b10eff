"""What the leader of a partition asks the controller for."""

from ottla.base.ids import Uuid
from ottla.base.values import dataclass
from ottla.metadata.image import RECOVERED


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredIsr:
    """A requested ISR; `topic` or `topic_id` is set, depending on the version."""

    topic: str | None = None
    topic_id: Uuid | None = None
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    epochs: tuple[int, ...] = ()
    """The epoch of each broker of the ISR, -1 if unknown (KIP-903); empty without epochs."""
    recovery_state: int = RECOVERED
