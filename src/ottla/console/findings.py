"""What takes a while to find out, in the background: what `ottla doctor` finds, and the summary of
a cluster that may not answer.
"""

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from ottla.base.errors import OttlaError
from ottla.base.values import dataclass
from ottla.client.administration.doctor import complaints, local_directories
from ottla.client.connecting.connection import ADDRESS_HINT
from ottla.console.targets import Place
from ottla.diagnosis.complaints import Complaint

FRESH_S = 30.0
SUMMARY_FRESH_S = 5.0
FIRST_WAIT_S = 1.5
"""How long a page waits for new findings before it is shown without them."""

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings(Generic[Found]):
    """`found` as of `age_s` ago; `None` before the first look has ended, and after a failed one."""

    found: Found | None
    age_s: float
    is_looking: bool
    failure: str = ""


class Looks(Generic[Found]):
    """Looks in a thread, one for each user, and caches what was found for `fresh_s`.

    `look` may raise `OttlaError` and `OSError`.
    """

    def __init__(
        self,
        look: Callable[[Place, int], Found],
        fresh_s: float = FRESH_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look = look
        self._fresh_s = fresh_s
        self._clock = clock
        self._lock = threading.Lock()
        self._looks: dict[str, _Look[Found]] = {}

    def findings(self, place: Place, now_ms: int, wait_s: float = FIRST_WAIT_S) -> Findings[Found]:
        """The cached findings; starts a new look if they are too old."""
        with self._lock:
            known = self._looks.get(place.user)
            if known is None or (known.done_at and self._clock() - known.done_at > self._fresh_s):
                current = self._looks[place.user] = _Look[Found](known)
                arguments = (self._look, place, now_ms, self._clock)
                threading.Thread(target=current.run, args=arguments, daemon=True).start()
            else:
                current = known
        current.done.wait(wait_s)
        shown = current if current.done_at or current.before is None else current.before
        return Findings(
            found=shown.found,
            age_s=self._clock() - shown.done_at if shown.done_at else 0.0,
            is_looking=not current.done_at,
            failure=shown.failure,
        )


class _Look(Generic[Found]):
    """A look; `before` is the previous one, whose findings are shown until this one ends."""

    def __init__(self, before: "_Look[Found] | None") -> None:
        self.before = before
        self.found: Found | None = None
        self.failure = ""
        self.done_at = 0.0
        self.done = threading.Event()

    def run(
        self,
        look: Callable[[Place, int], Found],
        place: Place,
        now_ms: int,
        clock: Callable[[], float],
    ) -> None:
        try:
            self.found = look(place, now_ms)
        except (OttlaError, OSError) as error:
            # The visitor did not choose the address, so the hint does not help.
            self.failure = str(error).removesuffix(ADDRESS_HINT)
        finally:
            self.before = None
            self.done_at = clock()
            self.done.set()


def doctor() -> Looks[tuple[Complaint, ...]]:
    """All distinct complaints of doctor, notes last."""
    return Looks(_complaints)


def _complaints(place: Place, now_ms: int) -> tuple[Complaint, ...]:
    with place.broker() as admin:
        # A broker names its directories itself: the target may be one of several.
        files = place.files() if admin is None else local_directories(admin)
        found = list(complaints(admin, files, now_ms))
    return tuple(sorted(dict.fromkeys(found), key=lambda one: one.is_note))


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A cluster in a line; without a broker its files tell."""

    has_broker: bool
    cluster_id: str
    broker_count: int
    topic_count: int
    partition_count: int
    under_replicated_count: int
    offline_count: int


def summaries() -> Looks[Summary]:
    return Looks(_summary, SUMMARY_FRESH_S)


def _summary(place: Place, now_ms: int) -> Summary:
    has_broker = place.has_broker
    with place.reading() as admin:
        cluster = admin.describe_cluster()
        topics = admin.describe_topics(internal=True)
    partitions = [one for topic in topics for one in topic.partitions]
    return Summary(
        has_broker=has_broker,
        cluster_id=cluster.cluster_id,
        broker_count=len(cluster.brokers) if has_broker else 0,
        topic_count=sum(not one.is_internal for one in topics),
        partition_count=len(partitions),
        under_replicated_count=sum(len(one.in_sync) < len(one.replicas) for one in partitions),
        offline_count=sum(one.leader < 0 for one in partitions),
    )
