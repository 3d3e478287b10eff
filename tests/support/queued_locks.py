"""Looks at locks that threads queue for."""

from ottla.runtime.queued_lock import QueuedLock


def is_queued(lock: QueuedLock) -> bool:
    """Whether a thread waits for it."""
    if not lock._queue.acquire(blocking=False):
        return True
    lock._queue.release()
    return False
