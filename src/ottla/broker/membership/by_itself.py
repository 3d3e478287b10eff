"""What a broker that is in no cluster has instead of a membership."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.broker.membership.admission_requests import AdmissionRequest
    from ottla.broker.membership.dead_letter_requests import DeadLetterRequest
    from ottla.broker.membership.end_requests import EndOffsetsRequest
    from ottla.broker.membership.marker_requests import MarkerRequest
    from ottla.broker.membership.metadata_requests import MetadataRequest
    from ottla.broker.membership.state_requests import ShareStateRequest


class NoMembership:
    """The counterpart of `Membership`: nobody is asked, so nothing is answered."""

    is_controller: Final = False

    def send_markers(self, request: "MarkerRequest") -> None:
        raise AssertionError("all partitions are led here: no marker is sent")

    def ask_for_admission(self, request: "AdmissionRequest") -> None:
        raise AssertionError("all transactions are coordinated here: no coordinator is asked")

    def ask_about_metadata(self, request: "MetadataRequest") -> None:
        raise AssertionError("all partitions are led here: no leader is asked")

    def ask_share_coordinator(self, request: "ShareStateRequest") -> None:
        raise AssertionError("all partitions are led here: no coordinator is asked")

    def send_dead_letters(self, request: "DeadLetterRequest") -> None:
        raise AssertionError("all partitions are led here: no leader is asked")

    def ask_for_ends(self, request: "EndOffsetsRequest") -> None:
        raise AssertionError("all partitions are led here: no leader is asked")

    def create_topics(self, names: "Sequence[str]") -> None:
        raise AssertionError("this broker creates its topics itself")
