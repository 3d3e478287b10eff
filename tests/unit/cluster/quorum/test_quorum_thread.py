"""Nodes of a quorum elect a leader, and what its controller decides is what all of them know."""

from collections.abc import Iterator

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.broker.metadata.log import SnapshotLimits
from tests.support.metadata import image_of
from tests.support.patience import wait_until
from tests.support.quorum_nodes import QuorumNodes

pytestmark = pytest.mark.slow


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


def test_snapshots_replace_the_log_and_whoever_was_away_gets_one() -> None:
    quorum = QuorumNodes()
    quorum.snapshot_limits = SnapshotLimits(bytes_between=1500, retention_bytes=4000)
    quorum.start()
    try:
        quorum.create("t0")
        away = next(one for one in quorum.up if one is not quorum.leader())
        away.stop()
        names = [f"t{number}" for number in range(60)]
        for name in names[1:]:
            quorum.create(name)
        wait_until(lambda: all(one.used.log.log_start_offset > 5 for one in quorum.up))
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
