"""The replicas of a partition while it moves to other brokers (KIP-455)."""

from ottla.base.values import dataclass


@dataclass(frozen=True, slots=True)
class ReplicaAssignment:
    """The replicas of a partition, preferred leader first.

    During a reassignment `replicas` contains both old and new replicas.
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas before the reassignment."""
        return tuple(one for one in self.replicas if one not in self.adding)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas after the reassignment."""
        return tuple(one for one in self.replicas if one not in self.removing)

    def to_target(self, target: tuple[int, ...]) -> "ReplicaAssignment":
        """The assignment during a reassignment to `target`: its replicas first, then those to be
        removed.
        """
        whole = tuple(dict.fromkeys((*target, *self.origin)))
        return ReplicaAssignment(
            whole,
            adding=tuple(one for one in whole if one not in self.origin),
            removing=tuple(one for one in self.origin if one not in target),
        )
