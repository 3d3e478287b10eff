"""Share sessions: which partitions a member of a share group fetches from this broker.

A session begins with epoch 0, goes on with 1, 2, 3, and ends with -1, or with its connection: then
the records that its member has are released. Kafka's counterparts: `ShareSession`,
`ShareSessionCache`.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Final, NamedTuple

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.coordinator.consumer.partitions import TopicIdPartition

OPENING: Final = 0
CLOSING: Final = -1
LAST_EPOCH: Final = 2**31 - 1


class SessionKey(NamedTuple):
    group_id: str
    member_id: str


class ShareSession:
    """`partitions` are in the order in which they were added; `epoch` is the next one."""

    __slots__ = ("connection", "epoch", "key", "partitions")

    def __init__(self, key: SessionKey, connection: Hashable) -> None:
        self.key = key
        self.connection = connection
        self.epoch = 1
        self.partitions: dict[TopicIdPartition, None] = {}

    def change(
        self, added: Iterable[TopicIdPartition], forgotten: Iterable[TopicIdPartition]
    ) -> None:
        for one in added:
            self.partitions.setdefault(one)
        for one in forgotten:
            self.partitions.pop(one, None)

    def in_turn(self) -> Sequence[TopicIdPartition]:
        """All partitions, each first in its turn, so that none waits for what others deliver."""
        partitions = list(self.partitions)
        if not partitions:
            return ()
        first = self.epoch % len(partitions)
        return partitions[first:] + partitions[:first]


class ShareSessions:
    """Those of one broker."""

    def __init__(self, most: int) -> None:
        """`most` is `group.share.max.share.sessions`."""
        self.most = most
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._by_connection: dict[Hashable, dict[SessionKey, None]] = {}
        self._counts: Counter[str] = Counter()
        """By group."""

    def __len__(self) -> int:
        return len(self._sessions)

    def count_of(self, group_id: str) -> int:
        """The number of sessions of a group."""
        return self._counts[group_id]

    def open(self, key: SessionKey, connection: Hashable) -> ShareSession:
        """Begins a session, in place of an earlier one of the member; raises `ApiError`."""
        self._remove(key)
        if len(self._sessions) >= self.most:
            raise ApiError(
                ErrorCode.SHARE_SESSION_LIMIT_REACHED,
                f"This broker has {self.most} share sessions, which is the maximum.",
            )
        session = self._sessions[key] = ShareSession(key, connection)
        self._by_connection.setdefault(connection, {})[key] = None
        self._counts[key.group_id] += 1
        return session

    def check(self, key: SessionKey) -> None:
        """Raises `ApiError` unless the member has a session."""
        self._find(key)

    def find(self, key: SessionKey, epoch: int) -> ShareSession:
        """The session, which goes on to its next epoch; raises `ApiError`."""
        session = self._find(key)
        if epoch != session.epoch:
            raise ApiError(
                ErrorCode.INVALID_SHARE_SESSION_EPOCH,
                f"The share session is at epoch {session.epoch}, not {epoch}.",
            )
        session.epoch = 1 if epoch == LAST_EPOCH else epoch + 1
        return session

    def close(self, key: SessionKey) -> ShareSession:
        """Ends a session; raises `ApiError`."""
        session = self._find(key)
        self._remove(key)
        return session

    def disconnected(self, connection: Hashable) -> list[ShareSession]:
        """Ends the sessions of a connection that is closed; returns them."""
        sessions = [self._sessions[key] for key in self._by_connection.get(connection, ())]
        for one in sessions:
            self._remove(one.key)
        return sessions

    def clear(self) -> None:
        """Ends all."""
        self._sessions.clear()
        self._by_connection.clear()
        self._counts.clear()

    def _find(self, key: SessionKey) -> ShareSession:
        session = self._sessions.get(key)
        if session is None:
            raise ApiError(
                ErrorCode.SHARE_SESSION_NOT_FOUND,
                f"Member {key.member_id} of group {key.group_id} has no share session here.",
            )
        return session

    def _remove(self, key: SessionKey) -> None:
        session = self._sessions.pop(key, None)
        if session is None:
            return
        self._counts[key.group_id] -= 1
        if not self._counts[key.group_id]:
            del self._counts[key.group_id]
        keys = self._by_connection[session.connection]
        del keys[key]
        if not keys:
            del self._by_connection[session.connection]
