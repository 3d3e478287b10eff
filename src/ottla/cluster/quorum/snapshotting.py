"""Makes snapshots of the metadata log in threads of their own: the quorum's goes on meanwhile."""

from collections.abc import Callable
from threading import Event, Thread

from ottla.base.errors import ShortageError
from ottla.base.timestamps import Timestamps
from ottla.broker.metadata.quorum_snapshots import QuorumSnapshots, SnapshotWork
from ottla.metadata.image import MetadataImage
from ottla.quorum.effects import Effect
from ottla.quorum.machine import Quorum


class Snapshotting:
    """Each snapshot has a thread, which is the only one meanwhile; it is rare."""

    def __init__(
        self,
        snapshots: QuorumSnapshots | None,
        ended: Callable[[SnapshotWork, Exception | None], None],
    ) -> None:
        """`ended` is called in that thread, unless `stop` was called before."""
        self._snapshots = snapshots
        self._ended = ended
        self._is_stopping = Event()
        self.thread: Thread | None = None

    def begin_if_due(self, quorum: Quorum, image: MetadataImage, at: Timestamps) -> None:
        """`image` is what is committed. Raises `StorageError`."""
        snapshots, end_offset = self._snapshots, image.end_offset
        # A snapshot of half a transaction would lose what readers do not show yet.
        if snapshots is None or image.has_open_transaction or not snapshots.is_due(end_offset, at):
            return
        work = snapshots.begin(image, *quorum.snapshot_voters(end_offset), at)
        thread = Thread(target=self._run, args=(work,), name="ottla-quorum-snapshot", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the system has no thread left
            self._ended(work, ShortageError(work.path, str(error)))
        else:
            self.thread = thread

    def _run(self, work: SnapshotWork) -> None:
        try:
            for _ in work.steps():
                if self._is_stopping.is_set():
                    return
        except Exception as error:
            self._ended(work, error)
        else:
            self._ended(work, None)

    def made(self, quorum: Quorum, work: SnapshotWork) -> None:
        """Tells the machine of a snapshot; raises `StorageError`."""
        if self._snapshots is not None and self._snapshots.ended(work):
            quorum.snapshot_made(work.id)

    def put_off(self, at: Timestamps) -> None:
        """There was no room for the one that was begun."""
        if self._snapshots is not None:
            self._snapshots.put_off(at)

    def delete(self, quorum: Quorum, at: Timestamps) -> list[Effect]:
        """What removes the oldest snapshot, if it is too old or too much; to be asked again.

        Raises `StorageError`.
        """
        oldest = None if self._snapshots is None else self._snapshots.outdated(at)
        return [] if oldest is None else quorum.delete_before(oldest)

    def begin_stop(self) -> None:
        """The thread ends soon; what was not finished is removed at the next start."""
        self._is_stopping.set()
