"""What a broker that is in no cluster has instead of a membership and of replicas elsewhere.

So no caller asks which of the two it talks to. `assemble` chooses.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal

from ottla.base.errors import ApiError
from ottla.base.ids import Uuid

if TYPE_CHECKING:
    from ottla.broker.marker_requests import MarkerRequest


class NoMembership:
    """The counterpart of `Membership`: nobody is asked, so nothing is answered."""

    is_controller: Final = False

    def send_markers(self, request: "MarkerRequest") -> None:
        raise AssertionError("all partitions are led here: no marker is sent")


class OnlyReplicas:
    """The counterpart of `Replicas`: every replica is its partition's only one, and leads it."""

    have_followers: Literal[False] = False
    topics: Final = None

    def when_leading(self, listener: Callable[[], Any]) -> None:
        """Does nothing: leadership never changes."""

    def elsewhere(
        self, error: ApiError, topic: str | None, topic_id: Uuid | None, index: int
    ) -> ApiError:
        """Returns the error as it is: no other broker has the partition."""
        return error
