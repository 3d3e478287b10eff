"""Makes the quorum's log durable in a thread of its own: the quorum's goes on meanwhile."""

from collections.abc import Callable
from threading import Condition, Thread

from ottla.quorum.effects import SyncLog


class LogSyncs:
    """What comes while the log is synced is synced together afterwards."""

    def __init__(
        self, sync: Callable[[], None], synced: Callable[[SyncLog, Exception | None], None]
    ) -> None:
        """`synced` is called in the thread, with the error of a sync that failed; then none
        follows.
        """
        self._sync = sync
        self._synced = synced
        self._changed = Condition()
        self._next: SyncLog | None = None
        self._is_stopping = False
        self.thread = Thread(target=self._run, name="ottla-quorum-sync", daemon=True)
        self.thread.start()

    def begin(self, effect: SyncLog) -> None:
        """The records are appended, and whatever an earlier call has named too."""
        with self._changed:
            self._next = effect
            self._changed.notify()

    def begin_stop(self) -> None:
        """The thread ends after the running sync."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()

    def _run(self) -> None:
        while (effect := self._taken()) is not None:
            try:
                self._sync()
            except Exception as error:
                self._synced(effect, error)
                return
            self._synced(effect, None)

    def _taken(self) -> SyncLog | None:
        with self._changed:
            while self._next is None and not self._is_stopping:
                self._changed.wait()
            effect, self._next = self._next, None
            return None if self._is_stopping else effect
