"""Which directory of a node is meant that is made a voter, or loses its vote."""

from dataclasses import replace
from pathlib import Path

import pytest

import ottla
from ottla.base.errors import UserError
from ottla.base.ids import ZERO_UUID, Uuid, uuid_text
from ottla.client.administration.admin import Admin
from ottla.client.administration.quorum import directory_of
from ottla.client.administration.quorum_status import QuorumReplica, QuorumStatus
from ottla.protocol.messages.add_raft_voter import AddRaftVoterRequest

NOW_MS = 1_000_000
FORMER, PRESENT = Uuid(bytes(range(16))), Uuid(bytes(range(16, 32)))


def replica(
    node: int, directory: Uuid | None, *, fetched_ms: int = NOW_MS, is_voter: bool = False
) -> QuorumReplica:
    return QuorumReplica(
        node=node,
        directory_id=directory,
        is_voter=is_voter,
        end_offset=9,
        lag=0,
        last_fetch_ms=fetched_ms,
        last_caught_up_ms=fetched_ms,
        address=None,
    )


def status(*observers: QuorumReplica) -> QuorumStatus:
    leader = replica(1, ZERO_UUID, is_voter=True)
    return QuorumStatus(leader=1, epoch=3, high_watermark=9, replicas=(leader, *observers))


def test_a_node_that_came_back_with_another_disk_is_the_one_that_fetches() -> None:
    found = status(replica(2, FORMER, fetched_ms=NOW_MS - 60_000), replica(2, PRESENT))
    assert directory_of(found, 2, is_voter=False) == PRESENT


def test_two_that_fetch_with_the_same_id_are_named() -> None:
    found = status(replica(2, FORMER), replica(2, PRESENT))
    names = f"one of {uuid_text(FORMER)}, {uuid_text(PRESENT)}"
    with pytest.raises(UserError, match=f"node 2 is observer with several directories: .*{names}"):
        directory_of(found, 2, is_voter=False)


def test_a_node_that_is_not_there_and_voters_of_the_settings_are_refused() -> None:
    with pytest.raises(UserError, match="node 3 is no observer of the quorum; observers: 2"):
        directory_of(status(replica(2, PRESENT)), 3, is_voter=False)
    with pytest.raises(UserError, match="upgrade the feature kraft"):
        directory_of(status(replica(2, None)), 2, is_voter=False)


def test_a_node_is_looked_up_once_somebody_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader that has just lost its vote leaves the others to elect the next."""
    told = iter([QuorumStatus(), status(replica(2, PRESENT))])
    asked: list[AddRaftVoterRequest] = []
    with ottla.open(tmp_path / "data") as log, Admin(log) as admin:
        monkeypatch.setattr(admin, "describe_quorum", lambda: next(told))
        monkeypatch.setattr(admin, "_ask_quorum", lambda what, request: asked.append(request))
        admin.add_raft_voter(2, "CONTROLLER", "host2", 9093)
    assert [one.voter_directory_id for one in asked] == [PRESENT]


def test_a_new_voters_listener_is_named_as_that_of_the_leader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = replica(1, FORMER, is_voter=True)
    asked: list[AddRaftVoterRequest] = []
    with ottla.open(tmp_path / "data") as log, Admin(log) as admin:
        monkeypatch.setattr(admin, "_ask_quorum", lambda what, request: asked.append(request))
        for listener in ("INTERNAL", ""):
            known = replace(leader, listener=listener), replica(2, PRESENT)
            found = QuorumStatus(leader=1, epoch=3, high_watermark=9, replicas=known)
            monkeypatch.setattr(admin, "describe_quorum", lambda found=found: found)
            if listener:
                admin.add_raft_voter(2, None, "host2", 9093)
            else:
                with pytest.raises(UserError, match="name that of the controllers"):
                    admin.add_raft_voter(2, None, "host2", 9093)
    assert [one.listeners[0].name for one in asked] == ["INTERNAL"]
