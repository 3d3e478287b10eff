"""People are told what they can mend in a quorum, and once."""

import logging
from collections.abc import Sequence

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.timestamps import Timestamps
from ottla.cluster.quorum.complaints import Complaints
from ottla.quorum.effects import LeaderChanged, Send
from ottla.quorum.election_state import ElectionState
from ottla.quorum.log import lineage_of
from ottla.quorum.machine import Quorum
from ottla.quorum.messages import BeginQuorumEpoch, FetchAnswer, Known
from ottla.quorum.node import Forgetful
from ottla.quorum.options import QuorumOptions
from ottla.quorum.voters import Endpoint, ReplicaKey, Voter, VoterHistory, VoterSet
from tests.simulation.quorum_disk import MemoryDirectory

PLACE = Endpoint("CONTROLLER", "n2", 9002)


def at(monotonic_ms: float) -> Timestamps:
    return Timestamps(now_ms=0, monotonic_ms=monotonic_ms)


def started(voter_ids: Sequence[int] = (1, 2, 3)) -> Quorum:
    voters = VoterSet.of(Voter(ReplicaKey(one), (PLACE,)) for one in voter_ids)
    options = QuorumOptions(key=ReplicaKey(1), cluster_id="c", bootstrap=(PLACE,))
    history = VoterHistory(0, voters)
    quorum = Quorum(options, lineage_of(MemoryDirectory()), history, lambda _: 0)
    quorum.start(ElectionState(), at(0))
    return quorum


def test_who_waits_long_for_a_leader_is_told_who_does_not_answer() -> None:
    quorum, lines = started(), list[str]()
    silent = {3: "n3:9003: Connection refused", -2: "n9:9009: no response within 2 s"}
    complaints = Complaints(lines.append, lambda: silent)
    for now_ms in (0, 5000, 9999):
        complaints.look(quorum, at(now_ms))
    assert lines == []
    for now_ms in (10_000, 60_000):
        complaints.look(quorum, at(now_ms))
    assert lines == [
        "nobody has led the quorum for 10 s: node 3 does not answer (n3:9003: Connection refused); "
        "2 of its 3 voters must be up, and reach each other"
    ]
    effects = quorum.receive("p", BeginQuorumEpoch("c", ReplicaKey(1), 2, 1, (PLACE,)), at(61_000))
    (sent,) = [one for one in effects if isinstance(one, Send)]
    quorum.answered(sent.number, FetchAnswer(ErrorCode.NONE, Known(1, 2, PLACE), 0, 0), at(61_100))
    complaints.look(quorum, at(61_100))
    assert len(lines) == 1
    now_ms = 61_100.0
    while now_ms < 80_000:
        now_ms = max(quorum.deadline_ms, now_ms + 1)
        for one in quorum.advance(at(now_ms)):
            if isinstance(one, Send):
                quorum.answered(one.number, None, at(now_ms))
        complaints.look(quorum, at(now_ms))
    assert len(lines) == 2


def test_addresses_of_the_settings_are_named_while_no_voter_is_known() -> None:
    quorum, lines = started(()), list[str]()
    silent = {-2: "n9:9009: no response within 2 s"}
    complaints = Complaints(lines.append, lambda: silent)
    complaints.look(quorum, at(0))
    complaints.look(quorum, at(10_000))
    assert lines == [
        "nobody has led the quorum for 10 s: a controller does not answer "
        "(n9:9009: no response within 2 s)"
    ]


@pytest.mark.parametrize(
    ("effect", "gives_up", "line"),
    [
        (LeaderChanged(3, None), False, "too few of the others have fetched from it in time"),
        (LeaderChanged(3, None), True, "it gives way to another voter"),
        (LeaderChanged(4, None), False, "epoch 4 has begun"),
        (LeaderChanged(4, 2), False, "node 2 leads epoch 4 of the quorum"),
    ],
)
def test_a_leader_says_why_it_leads_no_longer(
    effect: LeaderChanged, gives_up: bool, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    complaints = Complaints(print, dict)
    complaints.gives_up = gives_up
    complaints.leader_changed(started(), LeaderChanged(3, 1), Known(2), "")
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="ottla"):
        complaints.leader_changed(started(), effect, Known(3, 1), "")
    assert [one.getMessage().endswith(line) for one in caplog.records] == [True]


def test_a_node_that_is_elected_says_why_it_has_stood_and_one_that_has_led_before_is_quiet(
    caplog: pytest.LogCaptureFixture,
) -> None:
    complaints = Complaints(print, dict)
    with caplog.at_level(logging.INFO, logger="ottla"):
        complaints.leader_changed(started(), LeaderChanged(3, None), Known(3, 1), "it has started")
        complaints.leader_changed(started(), LeaderChanged(4, 1), Known(3), "it has started")
        complaints.leader_changed(started(), LeaderChanged(5, 2), Known(4, 1), "it has started")
    assert [one.getMessage() for one in caplog.records] == [
        "node 1 leads epoch 4 of the quorum: it has started",
        "node 2 leads epoch 5 of the quorum",
    ]


def test_a_voter_that_has_lost_records_is_named_once() -> None:
    quorum, lines = started(), list[str]()
    complaints = Complaints(lines.append, dict[int, str])
    quorum.node.forgetful = Forgetful(2, 120, 80)
    for _ in range(2):
        complaints.look(quorum, at(0))
    (line,) = lines
    assert line.startswith("voter 2 had the metadata log up to offset 120, and asks from 80 again")
    assert line.endswith("format a new directory and let it join again")
