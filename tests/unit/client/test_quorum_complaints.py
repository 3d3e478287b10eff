"""What is said of a quorum's state, by what its leader tells."""

from ottla.base.errors import UnreachableError
from ottla.base.ids import Uuid
from ottla.client.administration.quorum_complaints import complaints_of_quorum
from ottla.client.administration.quorum_status import (
    QUIET_MS,
    QuorumReplica,
    QuorumStatus,
    unreachable,
)
from ottla.diagnosis.words.remedies import remedy_text

NOW_MS = 1_800_000_000_000


def replica(
    node: int, *, lag: int = 0, ago_ms: int | None = 100, is_voter: bool = True
) -> QuorumReplica:
    """`ago_ms` is when it fetched last; `None` since the leader's election never."""
    return QuorumReplica(
        node=node,
        directory_id=Uuid(bytes(15) + bytes([node])),
        is_voter=is_voter,
        end_offset=-1 if ago_ms is None else 5000 - lag,
        lag=5000 if ago_ms is None else lag,
        last_fetch_ms=None if ago_ms is None else NOW_MS - ago_ms,
        last_caught_up_ms=None if ago_ms is None else NOW_MS - ago_ms,
        address=None,
    )


def status(*others: QuorumReplica) -> QuorumStatus:
    leader = QuorumReplica(
        node=1,
        directory_id=Uuid(bytes(15) + b"\1"),
        is_voter=True,
        end_offset=5000,
        lag=0,
        last_fetch_ms=None,
        last_caught_up_ms=NOW_MS,
        address=None,
    )
    return QuorumStatus(leader=1, epoch=7, high_watermark=5000, replicas=(leader, *others))


def kinds(found: QuorumStatus) -> list[tuple[str, str]]:
    return [(one.kind, one.where) for one in complaints_of_quorum(found)]


def test_a_quorum_whose_voters_fetch_needs_nothing() -> None:
    assert kinds(status(replica(2), replica(3, lag=20), replica(4, is_voter=False))) == []
    assert kinds(status()) == [], "a cluster of one node needs no other"


def test_a_quorum_that_nobody_leads_is_named_with_what_it_means() -> None:
    (found,) = complaints_of_quorum(QuorumStatus())
    assert found.kind == "no_quorum"
    assert "no leader is elected where a broker fails" in found.what
    assert "ottla cluster status h:1 --controllers" in remedy_text(found, "h:1")


def test_a_voter_that_does_not_fetch_is_named_with_how_many_are_left() -> None:
    found = status(replica(2, ago_ms=QUIET_MS + 5000), replica(3))
    assert found.silent == (2,)
    (complaint,) = complaints_of_quorum(found)
    assert (complaint.kind, complaint.where) == ("silent_voter", "voter 2")
    assert complaint.what == (
        "has not fetched the metadata log for 15 s; 2 of 3 voters fetch, 2 are needed"
    )
    assert "ottla cluster remove-controller h:1 2" in remedy_text(complaint, "h:1")
    never = status(replica(2, ago_ms=None), replica(3))
    (complaint,) = complaints_of_quorum(never)
    assert "has not fetched the metadata log since epoch 7 began" in complaint.what


def test_a_node_whose_metadata_lag_and_a_quorum_of_two_are_named() -> None:
    found = status(replica(2), replica(4, lag=3000, is_voter=False))
    assert kinds(found) == [("metadata_lag", "observer 4"), ("two_voters", "the quorum")]
    gone = status(replica(2), replica(3), replica(4, ago_ms=60_000, is_voter=False))
    (complaint,) = complaints_of_quorum(gone)
    assert (complaint.kind, complaint.is_note) == ("silent_observer", True)
    assert "ottla cluster unregister h:1 4" in remedy_text(complaint, "h:1")


def test_controllers_that_do_not_answer_are_all_named_with_one_hint() -> None:
    failures = [
        UnreachableError("a:1: Connection refused; name a broker's HOST:PORT"),
        UnreachableError("b:1: no response within 5 s"),
    ]
    assert str(unreachable(failures)) == (
        "a:1: Connection refused, b:1: no response within 5 s; name a controller's HOST:PORT"
    )
    assert str(unreachable(failures[1:])) == "b:1: no response within 5 s"
