"""Nodes of a quorum elect a leader, and what its controller decides is what all of them know."""

import logging
import re
from collections.abc import Iterator
from itertools import count
from math import inf
from queue import SimpleQueue
from threading import Event
from typing import Any

import pytest
from click.testing import CliRunner

from ottla.base.clock import SystemClock, read_clock
from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, StorageError
from ottla.base.timestamps import Timestamps
from ottla.base.turns import InParts, in_one_part
from ottla.broker.metadata.log import SnapshotLimits
from ottla.broker.metadata.quorum_log import PART
from ottla.cli.main import cli
from ottla.cluster.quorum import bounded_stops
from ottla.cluster.quorum.quorum_thread import Published
from ottla.codec.schema import Message
from ottla.protocol.api_keys import ApiKey
from ottla.quorum.messages import AddVoter, DescribeQuorum, QuorumAnswer, RemoveVoter
from ottla.quorum.voters import ReplicaKey, Voter
from tests.support.brokers import disk, id_of
from tests.support.metadata import image_of
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.quorum_nodes import CLUSTER_ID, Node, QuorumNodes, TopicMaker, endpoint_of

pytestmark = pytest.mark.slow

FOLDER = "/d/__cluster_metadata-0"


@pytest.fixture
def quorum() -> Iterator[QuorumNodes]:
    nodes = QuorumNodes()
    nodes.start()
    yield nodes
    nodes.stop()


def test_what_the_leader_decides_is_in_the_image_of_all(quorum: QuorumNodes) -> None:
    offset = quorum.create("a")
    quorum.await_topics("a")
    leader = quorum.leader()
    assert leader.thread.status().high_watermark > offset
    assert leader.ask(lambda controller: controller.look()) == ["a"]
    refused = leader.ask(lambda controller: controller.create("a"))
    assert isinstance(refused, ApiError)
    assert refused.code == ErrorCode.TOPIC_ALREADY_EXISTS
    (follower, _) = [one for one in quorum.up if one is not leader]
    refused = follower.ask(lambda controller: controller.create("b"))
    assert isinstance(refused, ApiError)
    assert refused.code == ErrorCode.NOT_CONTROLLER
    assert {one.thread.leader.leader_id for one in quorum.up} == {leader.id}
    first = follower.published[0]
    assert first.is_whole
    assert not any(one.is_whole for one in follower.published[1:])
    assert not any(one.complaints or one.failures for one in quorum.up)


def left_behind(quorum: QuorumNodes) -> tuple[Node, list[str]]:
    """A node that is not up, and lacks what the others have in snapshots alone: those topics."""
    quorum.snapshot_limits = SnapshotLimits(bytes_between=1500, retention_bytes=4000)
    quorum.start()
    quorum.create("t0")
    away = next(one for one in quorum.up if one is not quorum.leader())
    away.stop()
    names = [f"t{number}" for number in range(60)]
    for name in names[1:]:
        quorum.create(name)
    wait_until(lambda: all(one.used.log.log_start_offset > 5 for one in quorum.up))
    return away, names


def test_snapshots_replace_the_log_and_whoever_was_away_gets_one() -> None:
    quorum = QuorumNodes()
    try:
        away, names = left_behind(quorum)
        away.start()
        quorum.await_topics(*names)
        assert away.used.log.log_start_offset > 5
        for one in quorum.up:
            one.stop()
        assert {len(image_of(one.disk).topics) for one in quorum.nodes.values()} == {60}
        quorum.start()
        quorum.await_topics(*names)
        assert not any(one.complaints or one.failures for one in quorum.up)
    finally:
        quorum.stop()


def test_a_killed_leader_takes_nothing_with_it_that_was_acknowledged(quorum: QuorumNodes) -> None:
    names = [f"t{one}" for one in range(20)]
    for name in names[:10]:
        quorum.create(name)
    first = quorum.leader()
    first.kill()
    for name in names[10:]:
        quorum.create(name)
    second = quorum.leader()
    assert second is not first
    first.start()
    quorum.await_topics(*names)
    status = second.thread.status()
    assert f"nothing was heard of leader {first.id}" in status.election_reason
    assert status.is_active_controller
    assert status.new_leader_count >= 2
    assert first.thread.status().state == "follower"


def test_who_does_not_lead_says_whom_it_follows_and_for_how_long_it_has_heard_nobody(
    quorum: QuorumNodes,
) -> None:
    quorum.create("a")
    leader = quorum.leader()
    one, other = (node for node in quorum.up if node is not leader)

    def told() -> QuorumAnswer:
        answers: SimpleQueue[Any] = SimpleQueue()
        one.thread.receive(DescribeQuorum(), answers.put)
        answer = answers.get(timeout=PATIENCE_S)
        assert isinstance(answer, QuorumAnswer)
        return answer

    follows = f"node {one.id} follows node {leader.id}, the leader of epoch "
    wait_until(lambda: told().message.startswith(follows))
    assert {place.key.id for place in told().nodes} == {1, 2, 3}
    other.kill()
    leader.kill()
    heard = re.compile(f"node {one.id} has not heard .* of epoch [0-9]+ for [0-9]+ s")
    wait_until(lambda: heard.fullmatch(told().message) is not None)


def test_a_leader_that_stops_is_followed_at_once() -> None:
    nodes = QuorumNodes(fetch_timeout_ms=600_000, election_timeout_ms=300)
    nodes.start()
    try:
        first = nodes.leader()
        first.stop()
        second = nodes.leader()
        assert second.thread.status().election_reason.endswith("has resigned")
        nodes.create("a")
    finally:
        nodes.stop()


def test_a_leader_without_a_majority_acknowledges_nothing(quorum: QuorumNodes) -> None:
    quorum.create("a")
    first = quorum.leader()
    first.is_cut_off = True
    refused = first.ask(lambda controller: controller.create("lost"))
    assert isinstance(refused, ApiError)
    assert refused.code == ErrorCode.NOT_CONTROLLER
    others = [one for one in quorum.up if one is not first]
    second = quorum.leader(others)
    created = second.ask(lambda controller: controller.create("b"))
    assert isinstance(created, int)
    first.is_cut_off = False
    quorum.await_topics("a", "b")
    assert "lost" not in first.image.topics
    assert second.ask(lambda controller: controller.create("lost")) == created + 1


def test_no_time_passes_for_a_controller_before_what_has_come_meanwhile_is_done(
    quorum: QuorumNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session does not end while the heartbeat waits behind a long decision."""
    leader, told, is_deciding, has_come = quorum.leader(), list[str](), Event(), Event()
    wait_until(lambda: not isinstance(leader.ask(TopicMaker.look), ApiError))

    def advance(maker: TopicMaker, _: Timestamps) -> None:
        told.append("time")
        maker.deadline_ms = inf

    monkeypatch.setattr(TopicMaker, "advance", advance)

    def decide_long(maker: TopicMaker) -> None:
        is_deciding.set()
        has_come.wait(PATIENCE_S)
        maker.deadline_ms = read_clock(SystemClock()).monotonic_ms
        told.append("decision")

    leader.thread.ask(lambda one: in_one_part(lambda: decide_long(one)), lambda _: None)
    assert is_deciding.wait(PATIENCE_S)
    leader.thread.ask(lambda _: in_one_part(lambda: told.append("heartbeat")), lambda _: None)
    has_come.set()

    wait_until(lambda: len(told) == 3)
    assert told == ["decision", "heartbeat", "time"]


def test_others_are_answered_between_the_parts_of_a_long_decision(quorum: QuorumNodes) -> None:
    quorum.create("a")
    leader, told = quorum.leader(), SimpleQueue[str]()

    def decide_long(maker: TopicMaker) -> InParts[int]:
        offset = 0
        for name in ("b", "c", "d"):
            offset = maker.create(name)
            leader.thread.ask(
                lambda one: in_one_part(lambda: one.create("e") if "e" not in one.names else 0),
                lambda _: told.put("other"),
            )
            yield
        return offset

    leader.thread.ask(decide_long, lambda _: told.put("long"))

    assert [told.get(timeout=PATIENCE_S) for _ in range(4)] == [*["other"] * 3, "long"]
    quorum.await_topics("a", "b", "c", "d", "e")


def test_a_long_decision_is_refused_when_the_leadership_ends_before_its_last_part(
    quorum: QuorumNodes,
) -> None:
    quorum.create("a")
    leader, told = quorum.leader(), SimpleQueue[object]()

    def decide_for_ever(maker: TopicMaker) -> InParts[None]:
        while True:
            yield

    leader.thread.ask(decide_for_ever, told.put)
    leader.stop()

    refused = told.get(timeout=PATIENCE_S)
    assert isinstance(refused, ApiError)
    assert refused.code is ErrorCode.NOT_CONTROLLER


def test_an_observer_follows_from_a_log_and_later_ones_too(quorum: QuorumNodes) -> None:
    quorum.create("a")
    observer = quorum.add_observer(11)
    quorum.await_topics("a")
    quorum.create("b")
    quorum.await_topics("a", "b")
    assert observer.thread.status().state == "observer"
    leader = quorum.leader()
    wait_until(lambda: leader.thread.status().observer_count == 1)
    late: list[Published] = []
    observer.thread.follow(late.append)
    wait_until(lambda: late)
    assert late[0].is_whole
    assert late[0].image == observer.image


def test_a_follower_that_has_lost_its_log_gets_it_again(quorum: QuorumNodes) -> None:
    quorum.create("a")
    quorum.await_topics("a")
    lost = next(one for one in quorum.up if one is not quorum.leader())
    lost.stop()
    lost.disk = disk("/d")
    quorum.create("b")
    lost.start()
    quorum.await_topics("a", "b")
    assert lost.thread.status().end_offset >= quorum.leader().thread.status().high_watermark - 1


def test_a_controller_that_fails_gives_way_to_another(
    quorum: QuorumNodes, caplog: pytest.LogCaptureFixture
) -> None:
    quorum.create("a")
    first = quorum.leader()
    epoch = first.thread.status().epoch
    with caplog.at_level(logging.CRITICAL, logger="ottla"):
        failed = first.ask(lambda controller: controller.create("fault"))
    assert isinstance(failed, ApiError)
    assert failed.code == ErrorCode.UNKNOWN_SERVER_ERROR
    quorum.create("b")
    assert quorum.leader().thread.status().epoch > epoch
    quorum.await_topics("a", "b")
    assert not first.failures


def test_a_disk_that_fails_ends_the_part_of_its_node_and_of_no_other(quorum: QuorumNodes) -> None:
    quorum.create("a")
    first = quorum.leader()
    first.files.fail_syncs()
    first.ask(lambda controller: controller.create("b"))  # The others may commit it.
    wait_until(lambda: first.failures)
    (failure,) = first.failures
    assert isinstance(failure, StorageError)
    assert "/d" in str(failure)
    assert not first.complaints, "whoever is told of the failure says so, once"
    assert isinstance(first.ask(lambda controller: controller.look()), ApiError)
    first.is_up = False
    quorum.create("c")
    quorum.await_topics("a", "c")


def test_a_node_without_a_descriptor_waits_for_one_and_goes_on(
    quorum: QuorumNodes, caplog: pytest.LogCaptureFixture
) -> None:
    quorum.create("a")
    first = quorum.leader()
    first.files.has_descriptors = False
    with caplog.at_level(logging.WARNING, logger="ottla.storage.files.patient_files"):
        first.thread.ask(lambda one: in_one_part(lambda: one.create("b")), lambda _: None)
        wait_until(lambda: first.files.refused > 2)
        second = quorum.leader([one for one in quorum.up if one is not first])
        assert isinstance(second.ask(lambda controller: controller.create("c")), int)
        first.files.has_descriptors = True
        quorum.await_topics("a", "c")
    assert not any(one.failures or one.complaints for one in quorum.up)
    waited, went_on = caplog.messages[:2]
    assert waited.startswith("/d: the quorum's part of this node waits: ")
    assert "ulimit -n" in waited
    assert went_on == "/d: the quorum's part of this node goes on"


def test_a_node_that_waits_for_a_descriptor_can_be_stopped(quorum: QuorumNodes) -> None:
    quorum.create("a")
    first = quorum.leader()
    first.files.has_descriptors = False
    first.thread.ask(lambda one: in_one_part(lambda: one.create("b")), lambda _: None)
    wait_until(lambda: first.files.refused > 2)
    first.stop()
    first.start()
    quorum.await_topics("a")


def test_a_stop_says_that_the_disk_does_not_answer_and_ends_without_it(
    quorum: QuorumNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_stops, "QUIET_S", 0.1)
    monkeypatch.setattr(bounded_stops, "LIMIT_S", 0.3)
    quorum.create("a")
    first = quorum.leader()
    first.files.answers = Event()
    first.thread.ask(lambda one: in_one_part(lambda: one.create("b")), lambda _: None)
    wait_until(lambda: first.files.refused)
    first.is_up = False
    assert not first.thread.stop()
    waits, leaves = first.complaints
    assert waits.startswith("stopping waits for the disk: a sync of the metadata log has not")
    assert leaves.startswith("stopping without a sync of the metadata log")
    first.used.log.give_up()
    first.used.close()
    first.files.answers.set()


def test_a_snapshot_without_room_is_put_off_and_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.broker.metadata.quorum_snapshots.PAUSE_MS", 50)
    quorum = QuorumNodes()
    quorum.snapshot_limits = SnapshotLimits(bytes_between=1500)
    quorum.start()
    try:
        for one in quorum.up:
            one.files.full_for = PART
        names = (f"t{number}" for number in count())
        wait_until(lambda: all(one.files.refused > 3 for one in made(quorum, names)))
        wait_until(lambda: not any(parts_of(one) for one in quorum.up))
        for one in quorum.up:
            (line,) = one.complaints
            assert line.startswith("a snapshot of the metadata log is put off")
            assert line.endswith("make room on the disk")
            one.files.full_for = None
        wait_until(lambda: all(one.used.log.snapshots for one in made(quorum, names)))
        assert not any(one.failures for one in quorum.up)
    finally:
        quorum.stop()


def parts_of(node: Node) -> list[str]:
    return [one for one in node.disk.list(FOLDER) if one.endswith(PART)]


def made(quorum: QuorumNodes, names: Iterator[str]) -> list[Node]:
    quorum.create(next(names))
    return quorum.up


def test_a_snapshot_of_the_leader_waits_for_room_and_its_node_votes_meanwhile() -> None:
    quorum = QuorumNodes()
    try:
        away, names = left_behind(quorum)
        away.open()
        away.files.full_for = PART
        away.is_up = True
        away.thread.start()
        wait_until(lambda: away.files.refused > 1)
        (line,) = away.complaints
        assert line.startswith("the leader's snapshot of the metadata cannot be written here")
        assert line.endswith("make room on the disk")
        # It is one of two that are left, and votes for the other with the longer log.
        epoch = away.thread.leader.epoch
        quorum.leader().stop()
        wait_until(lambda: away.thread.status().epoch > epoch)
        wait_until(lambda: any(one.thread.status().state == "leader" for one in quorum.up))
        wait_until(lambda: away.thread.leader.leader_id is not None)
        assert away.thread.status().state == "follower"
        refused = away.files.refused
        wait_until(lambda: away.files.refused > refused)
        away.files.full_for = None
        quorum.await_topics(*names)
        assert not away.failures
    finally:
        quorum.stop()


def test_voters_that_know_no_pre_vote_are_asked_for_their_vote_at_once() -> None:
    nodes = QuorumNodes()
    for one in (1, 2):
        nodes.nodes[one].newest = {ApiKey.VOTE: 0, ApiKey.FETCH: 12}
    nodes.start()
    try:
        nodes.create("a")
        nodes.await_topics("a")
    finally:
        nodes.stop()


def test_a_node_of_another_cluster_is_told_to_people_once(quorum: QuorumNodes) -> None:
    quorum.create("a")
    stranger = quorum.add_observer(12, cluster_id="another-cluster-for-ts")
    wait_until(lambda: len(stranger.complaints) >= 3)
    assert sorted(stranger.complaints) == [
        f"the controller at node:{9000 + one} refuses this node: it is of another cluster than "
        "another-cluster-for-ts; name the controllers of this cluster, or format the directories "
        "for theirs"
        for one in (1, 2, 3)
    ]
    wait_until(lambda: stranger.thread.status().refusal in stranger.complaints)
    assert all(one.thread.status().refusal is None for one in quorum.up if one is not stranger)


def test_a_second_process_with_the_leaders_id_is_told_so(quorum: QuorumNodes) -> None:
    quorum.create("a")
    leader = quorum.leader()
    stranger = Node(quorum, leader.id, is_controller=False)
    stranger.is_first, stranger.directory_id = False, id_of(999)
    stranger.start()
    try:
        wait_until(lambda: stranger.complaints)
    finally:
        stranger.stop()
    epoch = leader.thread.status().epoch
    assert stranger.complaints == [
        f"another process is node {leader.id}, and leads epoch {epoch} of the quorum; give this "
        "one another node.id, or stop the other"
    ]


def test_commands_show_the_quorum_and_follow_its_log(quorum: QuorumNodes) -> None:
    quorum.create("a")
    quorum.create("b")
    leader = quorum.leader()
    addresses = [f"127.0.0.1:{quorum.serve(one).port}" for one in quorum.up]
    shown = CliRunner().invoke(cli, ["metadata", "follow", ",".join(addresses), "--once"])
    assert shown.exit_code == 0, shown.output
    assert "TopicRecord(name='a'" in shown.output
    assert "TopicRecord(name='b'" in shown.output
    status = CliRunner().invoke(cli, ["cluster", "status", "--controllers", ",".join(addresses)])
    assert status.exit_code == 0, status.output
    epoch = leader.thread.status().epoch
    assert f"node {leader.id} leads epoch {epoch}: 3 voters, 0 observers" in status.output
    reason = leader.thread.status().election_reason
    assert f"node {leader.id} has stood for election because {reason}" in status.output
    for_brokers = CliRunner().invoke(cli, ["topics", "list", addresses[0]])
    said = f"{addresses[0]} is a listener of controllers, which does not answer METADATA; name a"
    assert said in for_brokers.output + str(for_brokers.exception)


def test_voters_come_and_go_while_the_quorum_runs() -> None:
    quorum = QuorumNodes(1, is_dynamic=True)
    quorum.start()
    try:
        quorum.create("a")
        for node_id in (2, 3):
            added = quorum.add_observer(node_id, is_controller=True)
            quorum.await_topics("a")
            voter = Voter(ReplicaKey(node_id, added.directory_id), (endpoint_of(node_id),))
            change(quorum, AddVoter(CLUSTER_ID, voter, 10_000))
        first = quorum.nodes[1]
        refused = first.tell(AddVoter(CLUSTER_ID, voter, 10_000))
        assert refused.error is ErrorCode.DUPLICATE_VOTER
        first.kill()
        quorum.create("b")
        change(quorum, RemoveVoter(CLUSTER_ID, ReplicaKey(1, first.directory_id)))
        second = quorum.leader()
        change(quorum, RemoveVoter(CLUSTER_ID, ReplicaKey(second.id, second.directory_id)))
        wait_until(lambda: quorum.leader() is not second)
        quorum.create("c")
        quorum.await_topics("a", "b", "c")
        assert second.thread.status().state == "observer"
        assert quorum.leader().thread.status().voter_count == 1
    finally:
        quorum.stop()


def change(quorum: QuorumNodes, request: AddVoter | RemoveVoter) -> None:
    """Asks the leader as a tool does that tries again while another change is under way."""

    def is_done() -> bool:
        error = quorum.leader().tell(request).error
        may_come = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert error in (ErrorCode.NONE, *may_come)
        return error is ErrorCode.NONE

    wait_until(is_done)


class OfTheFuture(Message, api_key=99, versions="0"):
    """A record that nobody knows here."""


def test_a_node_that_cannot_read_what_is_committed_votes_and_does_not_lead(
    quorum: QuorumNodes,
) -> None:
    quorum.create("a")
    first = quorum.leader()
    epoch = first.thread.status().epoch
    first.thread.ask(lambda one: in_one_part(lambda: one.write(OfTheFuture())), print)
    wait_until(lambda: all(one.complaints for one in quorum.up))
    wait_until(lambda: first.thread.status().epoch > epoch + 1)
    for one in quorum.up:
        assert [line for line in one.complaints if "metadata record 99 of version 0" in line]
        assert len(one.complaints) == 1
        assert isinstance(one.ask(lambda controller: controller.look()), ApiError)
        assert one.failures == []


def test_a_node_that_cannot_be_the_controller_leaves_that_to_others_and_says_why() -> None:
    quorum = QuorumNodes()
    for one in (1, 2):
        quorum.nodes[one].refusal = "metadata.version 99 is not known here"
    quorum.start()
    try:
        quorum.create("a")
        assert quorum.leader().id == 3
        quorum.await_topics("a")
        line = "this node cannot be the controller: metadata.version 99 is not known here"
        for one in (1, 2):
            assert quorum.nodes[one].complaints in ([], [line])
    finally:
        quorum.stop()


def test_a_thread_that_was_never_started_can_be_stopped() -> None:
    node = QuorumNodes(1).nodes[1]
    node.open()
    before: list[object] = []
    node.thread.ask(lambda one: in_one_part(one.look), before.append)
    node.thread.stop()
    after: list[object] = []
    node.thread.ask(lambda one: in_one_part(one.look), after.append)
    node.used.close()
    assert [type(one) for one in (*before, *after)] == [ApiError, ApiError]
