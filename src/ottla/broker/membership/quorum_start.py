"""What a node of a KRaft cluster knows before its broker is assembled."""

from collections.abc import Callable
from dataclasses import field

from ottla.base.values import dataclass
from ottla.metadata.cluster_view import NO_CONTROLLER
from ottla.metadata.image import MetadataImage


def _nobody() -> int:
    return NO_CONTROLLER


def _static() -> int:
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumStart:
    """`image` is what the node's own log is known to have committed, perhaps not the newest: what
    it does not name may be there nevertheless, until an image is followed.
    """

    image: MetadataImage = MetadataImage()
    leader_id: Callable[[], int] = field(default=_nobody)
    """Returns the quorum's leader, the active controller, to this node's knowledge; or -1."""
    kraft_version: Callable[[], int] = field(default=_static)
    """Returns the level of `kraft.version`, which is in the quorum's log and in no image."""
