"""`upload.rate.limit.bytes.per.second` of Aiven's plug-in: one limit for all of a broker's uploads.

The plug-in has a bucket of tokens that holds those of one second; so has this.
"""

from ottla.base.clock import WaitingClock


class UploadRate:
    """Threads call it before they write."""

    def __init__(self, bytes_per_second: int, clock: WaitingClock) -> None:
        self._bytes_per_ms = bytes_per_second / 1000
        self._clock = clock
        self._paid_until_ms = clock.monotonic_ms() - 1000
        """When all bytes until now are paid for at the rate; at most a second ago."""

    def __call__(self, size: int) -> None:
        now_ms = self._clock.monotonic_ms()
        due_ms = max(self._paid_until_ms, now_ms - 1000) + size / self._bytes_per_ms
        # Without a lock: of two threads at the same instant one may not be counted.
        self._paid_until_ms = due_ms
        if due_ms > now_ms:
            self._clock.wait_ms(due_ms - now_ms)
