"""A batch of the controller's writes in a real ZooKeeper: few transactions, and each for itself."""

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.cluster.session import GROUP_COUNT, GROUP_SIZE, SessionLostError, ZooKeeperSession
from ottla.controller.operations import (
    Batch,
    Children,
    Create,
    Delete,
    Get,
    Operation,
    Outcome,
    Result,
    Set,
)
from ottla.zookeeper import paths
from tests.support.zookeeper_server import TIMEOUT_S, zookeeper_client, zookeeper_server

pytest.importorskip("kazoo.client")

pytestmark = pytest.mark.slow

SESSION_MS = 90_000
COUNT = 2 * GROUP_COUNT + 10
numbers = iter(range(1000))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with zookeeper_server(tmp_path_factory.mktemp("zookeeper")) as address:
        yield address


@pytest.fixture
def tools(server: str) -> Iterator[Any]:
    """Another client, at a chroot of this test's own, with nodes to write."""
    with zookeeper_client(server) as client:
        client.ensure_path(chroot := f"/c{next(numbers)}")
        client.chroot = chroot
        client.create(paths.CONTROLLER_EPOCH, b"1")
        for one in range(COUNT):
            client.create(path_of(one), b"old")
        yield client


@pytest.fixture
def session(server: str, tools: Any) -> Iterator[ZooKeeperSession]:
    def ignore(*_: object) -> None:
        pass

    made = ZooKeeperSession(server + tools.chroot, SESSION_MS, ignore, ignore, ignore)
    made.start(TIMEOUT_S)
    yield made
    made.close()


def path_of(number: int) -> str:
    return f"/node-{number}"


def write(session: ZooKeeperSession, *operations: Operation, fence: int = 0) -> tuple[Result, ...]:
    return session.execute(Batch(operations=operations, epoch_version=fence))


def sets(version: int = 0) -> list[Set]:
    return [Set(path_of(one), b"new", version) for one in range(COUNT)]


def test_writes_of_a_batch_go_in_few_transactions(session: ZooKeeperSession, tools: Any) -> None:
    results = write(session, *sets())
    assert {(one.outcome, one.version) for one in results} == {(Outcome.DONE, 1)}
    stats = [tools.get(path_of(one)) for one in range(COUNT)]
    assert {content for content, _ in stats} == {b"new"}
    transactions = {stat.mzxid for _, stat in stats}
    assert len(transactions) == 3, "as many as the groups of at most a hundred"


def test_one_that_is_refused_hinders_no_other(session: ZooKeeperSession, tools: Any) -> None:
    tools.set(path_of(7), b"meanwhile")
    tools.delete(path_of(150))
    results = write(session, *sets(), Create(path_of(3), b""), Create("/fresh", b"x"))
    refused = {
        number: one.outcome for number, one in enumerate(results) if one.outcome is not Outcome.DONE
    }
    assert refused == {
        7: Outcome.BAD_VERSION,
        150: Outcome.NO_NODE,
        COUNT: Outcome.NODE_EXISTS,
    }
    assert tools.get(path_of(7))[0] == b"meanwhile"
    assert tools.get("/fresh")[0] == b"x"
    others = set(range(COUNT)) - {7, 150}
    assert {tools.get(path_of(one))[0] for one in others} == {b"new"}
    assert {tools.get(path_of(one))[1].version for one in others} == {1}, "each was written once"


def test_a_later_controllers_epoch_fences_all_of_a_batch(
    session: ZooKeeperSession, tools: Any
) -> None:
    tools.set(paths.CONTROLLER_EPOCH, b"2")
    results = write(session, *sets())
    assert {one.outcome for one in results} == {Outcome.FENCED}
    assert {tools.get(path_of(one))[0] for one in range(COUNT)} == {b"old"}


def test_reads_and_deletions_stand_between_writes_as_they_were_asked(
    session: ZooKeeperSession, tools: Any
) -> None:
    set_0, deleted, got, created, children, *_ = write(
        session,
        Set(path_of(0), b"new"),
        Delete(path_of(1)),
        Get(path_of(0)),
        Create("/empty", None),
        Children("/"),
        Set(path_of(2), b"new"),
        Set(path_of(3), b"new"),
    )
    assert set_0.is_done
    assert deleted.is_done
    assert got.content == b"new"
    assert created.is_done
    assert "empty" in children.children
    assert tools.exists(path_of(1)) is None
    assert [tools.get(path_of(one))[0] for one in (2, 3)] == [b"new", b"new"]


def test_large_contents_go_in_transactions_of_their_own(
    session: ZooKeeperSession, tools: Any
) -> None:
    large = bytes(GROUP_SIZE)
    operations = [Set(path_of(one), large) for one in range(12)]
    assert all(one.is_done for one in write(session, *operations))
    assert len({tools.get(path_of(one))[1].mzxid for one in range(12)}) == 12


def test_writes_of_a_session_that_was_given_up_are_not_waited_for(
    session: ZooKeeperSession,
) -> None:
    session.close()
    with pytest.raises(SessionLostError):
        write(session, *sets())
