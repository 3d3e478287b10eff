"""What a broker that is in no cluster has instead of a membership."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ottla.broker.membership.marker_requests import MarkerRequest


class NoMembership:
    """The counterpart of `Membership`: nobody is asked, so nothing is answered."""

    is_controller: Final = False

    def send_markers(self, request: "MarkerRequest") -> None:
        raise AssertionError("all partitions are led here: no marker is sent")
