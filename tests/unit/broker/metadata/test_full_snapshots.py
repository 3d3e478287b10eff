"""A disk without room at any single call of a snapshot: nothing stalls, and nothing is silent."""

import errno
from collections.abc import Callable
from itertools import count
from types import SimpleNamespace
from typing import Final, TypeVar

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ShortageError, StorageError
from ottla.base.files import FileSystem
from ottla.broker.metadata.log import SnapshotLimits
from ottla.broker.metadata.quorum_log import PART
from ottla.broker.metadata.quorum_snapshots import PAUSE_MS
from ottla.cluster.quorum.complaints import Complaints
from ottla.cluster.quorum.fetched_snapshots import FetchedSnapshots
from ottla.quorum.messages import Known, SnapshotAnswer, SnapshotId
from ottla.quorum.roles import Follower
from ottla.testing import CrashMode, FakeFileSystem
from ottla.testing.recording import IoCall, IoKind, RecordingFileSystem
from tests.support.brokers import disk
from tests.support.quorum_logs import EPOCH, SnapshotNode

T = TypeVar("T")

FOLDER: Final = "/d/__cluster_metadata-0"

KEPT: Final = SnapshotLimits(bytes_between=900, retention_bytes=4000)


class FullAt(RecordingFileSystem):
    """Has no room at one of the calls after `begin`; `refused` is which."""

    def __init__(self, inner: FileSystem) -> None:
        super().__init__(inner)
        self._left: int | None = None
        self.refused: IoCall | None = None

    def begin(self, number: int) -> None:
        self._left = number

    def perform(
        self, call: IoCall, deed: Callable[[], T], fall_short: Callable[[], None] | None = None
    ) -> T:
        if self._left is not None:
            self._left -= 1
            if self._left == -1:
                self.refused = call
                raise OSError(errno.ENOSPC, "No space left on device", call.path)
        return super().perform(call, deed, fall_short)


def used() -> tuple[FakeFileSystem, FullAt, SnapshotNode]:
    """A node that has more than it is to keep."""
    inner = disk("/d")
    files = FullAt(inner)
    node = SnapshotNode(files, KEPT)
    for number in range(4):
        node.commit(number)
        if number in (1, 2):
            node.make()
    return inner, files, node


def parts(files: FileSystem) -> list[str]:
    return [name for name in files.list(FOLDER) if name.endswith(PART)]


def has_everything(inner: FakeFileSystem) -> bool:
    left = SnapshotNode(inner.crash(CrashMode.STRICT), KEPT)
    return left.image.configs[32].keys() >= {f"t{number}" for number in range(4)}


def test_a_snapshot_of_its_own_is_put_off_or_its_directory_goes_offline_with_the_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    put_off, offline, reasons = set(), set(), set()
    for number in count():
        inner, files, node = used()
        caplog.clear()
        files.begin(number)
        try:
            node.make()
            node.clean()
        except ShortageError as shortage:
            assert files.refused is not None
            put_off.add(files.refused.kind)
            reasons.add(shortage.reason.rpartition("; ")[2])
            assert not parts(inner)
            node.snapshots.put_off(node.at)
            node.now_ms += PAUSE_MS
            assert node.is_due
            node.make()
            node.clean()
        except StorageError:
            assert files.refused is not None
            offline.add((files.refused.kind, files.refused.path.endswith(PART)))
            (line,) = [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]
            assert "goes offline until a restart: No space left on device" in line
            assert line.endswith("make room on the disk")
        assert has_everything(inner), files.refused
        if files.refused is None:
            break
    of_a_part = {IoKind.CREATE, IoKind.PWRITE, IoKind.TRUNCATE, IoKind.SYNC, IoKind.RENAME}
    assert put_off == of_a_part
    assert reasons == {"make room on the disk"}
    assert {is_part for _, is_part in offline} == {False}


def fetched(node: SnapshotNode, snapshot: SnapshotId, content: bytes) -> int:
    """Fetches a snapshot of the leader as a follower does; returns how many answers it took."""
    told: list[str] = []
    into = FetchedSnapshots(node.log, Complaints(told.append, dict))
    role = Follower(EPOCH, deadline_ms=0, leader_id=2, endpoint=None, next_change_ms=0)
    role.snapshot, size = snapshot, len(content)
    quorum = SimpleNamespace(
        role=role, would_complete=lambda _, one: one.position + len(one.content) == size
    )
    for answers in count(1):
        part = content[role.position : role.position + size // 2 + 1]
        answer = SnapshotAnswer(
            ErrorCode.NONE, Known(EPOCH, 2), snapshot, size, role.position, part
        )
        taken = into.written(quorum, 1, answer)
        assert isinstance(taken, SnapshotAnswer)
        if taken.error is ErrorCode.NONE:
            role.position += len(part)
        elif taken.error is ErrorCode.SNAPSHOT_NOT_FOUND:
            role.position = 0
        else:
            assert taken.error is ErrorCode.KAFKA_STORAGE_ERROR
        if role.position == size:
            assert len(told) <= 1
            return answers
    raise AssertionError


def test_a_snapshot_of_the_leader_is_fetched_again_from_where_nothing_is_in_doubt() -> None:
    leader = used()[2]
    leader.make()
    snapshot = leader.log.snapshots[-1]
    content = bytes(leader.log.read_snapshot(snapshot, 0, 1 << 20))
    needed: dict[IoKind, set[int]] = {}
    for number in count():
        files = FullAt(disk("/d"))
        node = SnapshotNode(files, KEPT)
        files.begin(number)
        try:
            answers = fetched(node, snapshot, content)
        except StorageError:
            assert files.refused is not None
            # Whether the name is durable is not known.
            assert files.refused.kind is IoKind.SYNC_DIRECTORY
            assert node.used.directory.is_offline
            continue
        assert list(node.log.snapshots) == [snapshot]
        assert node.log.read_snapshot(snapshot, 0, 1 << 20) == content
        if files.refused is None:
            assert answers == 2
            break
        needed.setdefault(files.refused.kind, set()).add(answers)
    assert needed == {
        IoKind.CREATE: {3},
        IoKind.TRUNCATE: {3},
        IoKind.PWRITE: {3},
        IoKind.SYNC: {4},
        IoKind.RENAME: {3},
    }
