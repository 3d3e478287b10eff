"""A broker by itself becomes the first voter of a quorum, with the log that it has."""

from collections.abc import Iterator
from queue import SimpleQueue

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import RefusalError
from ottla.base.files import replace_file
from ottla.quorum.messages import AddVoter, Response, VoterAnswer
from ottla.quorum.voters import ReplicaKey, Voter, VoterSet
from ottla.testing import FakeFileSystem
from tests.support.brokers import disk, id_of, open_broker
from tests.support.metadata import image_of
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.quorum_logs import QuorumDirectory
from tests.support.quorum_nodes import Node, QuorumNodes, endpoint_of

OWN = Voter(ReplicaKey(1, id_of(101)), (endpoint_of(1),))


@pytest.fixture
def alone() -> FakeFileSystem:
    """The disk of a broker by itself that was used and stopped."""
    files = disk("/d")
    broker = open_broker(files, node_id="1")
    broker.producer_ids.allocate()
    broker.close()
    return files


@pytest.fixture
def quorum(alone: FakeFileSystem) -> Iterator[QuorumNodes]:
    nodes = QuorumNodes(1, is_dynamic=True)
    nodes.nodes[1].disk = alone
    nodes.start()
    yield nodes
    nodes.stop()


def voters_of(node: Node) -> VoterSet:
    return node.thread._quorum.node.voters


def added(leader: Node, voter: Voter) -> bool:
    """Whether it has caught up, and is a voter from now on."""
    answers: SimpleQueue[Response] = SimpleQueue()
    leader.thread.receive(AddVoter(None, voter, 5000), answers.put)
    answer = answers.get(timeout=PATIENCE_S)
    assert isinstance(answer, VoterAnswer)
    return answer.error is ErrorCode.NONE


@pytest.mark.slow
def test_its_log_goes_on_and_names_it_and_others_join(
    alone: FakeFileSystem, quorum: QuorumNodes
) -> None:
    before = image_of(alone)
    assert before.next_producer_id > 0
    first = quorum.leader()
    wait_until(lambda: voters_of(first).get(1) == OWN)
    quorum.create("t")
    second = quorum.nodes[2] = Node(quorum, 2)
    second.start()
    quorum.await_topics("t")
    assert second.image.next_producer_id == before.next_producer_id
    joined = Voter(ReplicaKey(2, second.directory_id), (endpoint_of(2),))
    wait_until(lambda: added(first, joined))
    quorum.create("u")
    quorum.await_topics("u")
    for node in (first, second):
        node.stop()
    quorum.start()
    quorum.await_topics("t", "u")
    assert voters_of(second) == VoterSet.of([OWN, joined])


def test_a_start_without_process_roles_goes_on_by_itself(alone: FakeFileSystem) -> None:
    used = QuorumDirectory(alone, own=OWN)
    assert used.opened.first_voter
    assert used.opened.history.kraft_version == 0
    used.close()
    broker = open_broker(alone, node_id="1")
    assert broker.producer_ids.allocate()
    broker.close()


def test_the_voters_of_a_static_quorum_have_to_be_named(alone: FakeFileSystem) -> None:
    state = (
        b'{"clusterId":"","leaderId":1,"leaderEpoch":9,"votedId":-1,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":1},{"voterId":2}],"data_version":0}'
    )
    replace_file(alone, "/d/__cluster_metadata-0/quorum-state", state)
    with pytest.raises(RefusalError, match=r"name this node and 2 in controller\.quorum\.voters"):
        QuorumDirectory(alone, own=OWN)


def test_who_is_no_controller_is_no_voter(alone: FakeFileSystem) -> None:
    opened = QuorumDirectory(alone).opened
    assert not opened.first_voter
    assert not opened.history.voters
