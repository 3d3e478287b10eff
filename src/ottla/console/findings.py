"""The findings of `ottla doctor`, computed in the background: large directories take a while."""

import threading
import time
from collections.abc import Callable

from ottla.base.errors import OttlaError
from ottla.base.values import dataclass
from ottla.client.administration.doctor import complaints, local_directories
from ottla.console.targets import Place
from ottla.diagnosis.complaints import Complaint

FRESH_S = 30.0
FIRST_WAIT_S = 1.5
"""How long a page waits for new findings before it is shown without them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """`complaints` as of `age_s` ago; `None` before the first check has ended."""

    complaints: tuple[Complaint, ...] | None
    age_s: float
    is_looking: bool
    failure: str = ""


def look(place: Place, now_ms: int) -> list[Complaint]:
    """All distinct complaints of doctor, notes last. Raises `OttlaError`."""
    with place.broker() as admin:
        # A broker names its directories itself: the target may be one of several.
        files = place.files() if admin is None else local_directories(admin)
        found = list(complaints(admin, files, now_ms))
    return sorted(dict.fromkeys(found), key=lambda one: one.is_note)


class Doctor:
    """Runs checks in a thread, one for each user, and caches the findings."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._looks: dict[str, _Look] = {}

    def findings(self, place: Place, now_ms: int) -> Findings:
        """The cached findings; starts a new check if they are too old."""
        with self._lock:
            known = self._looks.get(place.user)
            if known is None or (known.done_at and self._clock() - known.done_at > FRESH_S):
                current = self._looks[place.user] = _Look(known)
                thread = threading.Thread(
                    target=current.run, args=(place, now_ms, self._clock), daemon=True
                )
                thread.start()
            else:
                current = known
        current.done.wait(FIRST_WAIT_S)
        shown = current if current.done_at or current.before is None else current.before
        return Findings(
            complaints=shown.complaints,
            age_s=self._clock() - shown.done_at if shown.done_at else 0.0,
            is_looking=not current.done_at,
            failure=shown.failure,
        )


class _Look:
    """A check; `before` is the previous one, whose findings are shown until this one ends."""

    def __init__(self, before: "_Look | None") -> None:
        self.before = before
        self.complaints: tuple[Complaint, ...] | None = None
        self.failure = ""
        self.done_at = 0.0
        self.done = threading.Event()

    def run(self, place: Place, now_ms: int, clock: Callable[[], float]) -> None:
        try:
            self.complaints = tuple(look(place, now_ms))
        except (OttlaError, OSError) as error:
            self.failure = str(error)
        finally:
            self.before = None
            self.done_at = clock()
            self.done.set()
