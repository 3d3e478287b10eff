"""Fetch sessions (KIP-227): the numbers that both ends know, and the end that fetches.

A request names only the partitions that are new or have changed since the previous request, and
those that are no longer wanted. The other end is `broker/records/fetch_sessions.py`. Kafka's
counterpart: `FetchSessionHandler`.
"""

from typing import Final, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
"""A full fetch that requests a session; it ends the session that it names."""

FINAL_EPOCH: Final = -1
"""A full fetch that requests no session; it ends the session that it names."""

NOT_NAMED: Final = (1 << 63) - 1
"""The high watermark of a follower that does not name its own (KIP-1166), and of consumers."""

MAX_EPOCH: Final = 2**31 - 1


def next_epoch(epoch: int) -> int:
    """The epoch after the largest is 1, since 0 would begin a new session."""
    return 1 if epoch == MAX_EPOCH else epoch + 1


class FetchingSession(Generic[K, V]):
    """What a broker knows of the fetches of one connection: `wanted`, by partition."""

    def __init__(self) -> None:
        self.id = NO_SESSION
        self.epoch = INITIAL_EPOCH
        self.wanted: dict[K, V] = {}
        self._changed: dict[K, None] = {}
        self._forgotten: dict[K, None] = {}

    def put(self, key: K, fetch: V) -> None:
        """Sets what is wanted of a partition; named again only if it has changed, as in Kafka
        (`FetchSessionHandler`).
        """
        if self.wanted.get(key) == fetch:
            return
        self.wanted[key] = fetch
        self._changed[key] = None
        self._forgotten.pop(key, None)

    def remove(self, key: K) -> None:
        """Forgets a partition, which must be wanted."""
        del self.wanted[key]
        self._changed.pop(key, None)
        self._forgotten[key] = None

    def replace(self, wanted: dict[K, V]) -> None:
        """Sets all that is wanted, in the order in which a full request names it."""
        for key in [one for one in self.wanted if one not in wanted]:
            self.remove(key)
        for key, fetch in wanted.items():
            self.put(key, fetch)
        self.wanted = wanted

    def named(self) -> tuple[list[K], list[K]]:
        """The partitions that the next request names, and those that it forgets."""
        named, forgotten = list(self._changed), list(self._forgotten)
        self._changed, self._forgotten = {}, {}
        if self.epoch == INITIAL_EPOCH:
            return list(self.wanted), []
        return named, forgotten

    def answered(self, session_id: int) -> None:
        """A broker without room for sessions returns no id: all is named each time."""
        self.id = session_id
        self.epoch = INITIAL_EPOCH if session_id == NO_SESSION else next_epoch(self.epoch)

    def begin_again(self) -> None:
        """After an error or a lost response. The id stays: the broker ends the old session."""
        self.epoch = INITIAL_EPOCH
