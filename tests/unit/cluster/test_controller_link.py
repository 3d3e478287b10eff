"""What a broker has its controller hear of without being asked."""

from contextlib import nullcontext
from typing import Any

from ottla.cluster.controller_link import ControllerLink, LinkParts
from ottla.config.inter_broker_version import parse_inter_broker_version
from ottla.controller.operations import Batch, Create
from ottla.testing import FakeClock
from ottla.zookeeper import paths
from ottla.zookeeper.notices import decode_log_dir_event
from tests.support.brokers import at, disk
from tests.support.patience import wait_until
from tests.support.replicated_brokers import open_member, replicas_of

ME = 3


class RunSteps:
    """A member that notes what is to be done in ZooKeeper."""

    broker_id = ME
    is_controller = False

    def __init__(self) -> None:
        self.operations: list[Any] = []

    def run(self, make: Any, done: Any) -> None:
        batch = next(make())
        assert isinstance(batch, Batch)
        self.operations += batch.operations


def test_the_controller_hears_of_a_directory_that_fails_while_others_work() -> None:
    broker = open_member(ME, disk("/a", "/b"), "/a", "/b")
    replicas, member = replicas_of(broker), RunSteps()
    link = ControllerLink(
        LinkParts(
            member=member,  # type: ignore[arg-type]
            replicas=replicas,
            lock=nullcontext(),
            connect=lambda *_: None,  # type: ignore[arg-type, return-value]
            clock=FakeClock(),
            version=parse_inter_broker_version("3.8"),
            listener="PLAINTEXT",
            wake=lambda: None,
            new_topic=lambda name: None,  # type: ignore[arg-type, return-value]
            complain=lambda text: None,
        )
    )
    link.start()
    try:
        lost, _ = broker.directories
        lost.health.fail(OSError("the disk is gone"))
        replicas.advance(at(1))
        wait_until(lambda: bool(member.operations), "nothing was written for the controller")
        replicas.advance(at(2))
    finally:
        link.stop()
        broker.close()
    (reported,) = member.operations
    assert isinstance(reported, Create)
    assert reported.path == paths.LOG_DIR_EVENT_PREFIX
    assert reported.is_sequential
    assert decode_log_dir_event(reported.content, reported.path) == ME
