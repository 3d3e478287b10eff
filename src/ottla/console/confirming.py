"""Confirmations: the proof that a visitor has seen exactly what is about to be done, for one use.

A preview carries a confirmation, signed for its visitor and for a digest of what it shows. Whoever
sends it back gets what was shown, once and within an hour, or else the preview of what would happen
now.
"""

import hashlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from enum import Enum

from ottla.base.texts import whole_number

LIFETIME_S = 3600
MOST_USED = 100_000


class Confirmed(Enum):
    """Whether a change is carried out, or why it is shown again."""

    YES = ""
    CHANGED = "What would happen is not what was shown before. Look at it again."
    USED = "This was confirmed before. Confirm again to do it once more."
    TOO_OLD = "This was shown too long ago. Look at it again."


class Confirmations:
    """Makes confirmations of a console, and takes each of them once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._secret = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._used: OrderedDict[str, None] = OrderedDict()

    def new(self, visitor: str, shown: bytes) -> str:
        """The confirmation of what is shown to a visitor."""
        return self._signed(secrets.token_urlsafe(12), int(self._clock()), visitor, shown)

    def take(self, visitor: str, shown: bytes, given: str) -> Confirmed:
        """Judges a confirmation by what would be shown now; a valid one is used up."""
        name, _, rest = given.partition(".")
        at_s = whole_number(rest.partition(".")[0], 1 << 40)
        if at_s is None:
            return Confirmed.CHANGED
        signed = self._signed(name, at_s, visitor, shown)
        if not hmac.compare_digest(signed.encode(), given.encode()):
            return Confirmed.CHANGED
        if self._clock() - at_s > LIFETIME_S:
            return Confirmed.TOO_OLD
        with self._lock:
            if name in self._used:
                return Confirmed.USED
            self._used[name] = None
            if len(self._used) > MOST_USED:
                self._used.popitem(last=False)
        return Confirmed.YES

    def _signed(self, name: str, at_s: int, visitor: str, shown: bytes) -> str:
        digest = hashlib.sha256(shown).hexdigest()
        message = f"{name}\0{at_s}\0{visitor}\0{digest}".encode()
        return f"{name}.{at_s}.{hmac.new(self._secret, message, hashlib.sha256).hexdigest()}"
