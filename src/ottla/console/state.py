"""The console's state between requests: its options, and observed lags."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import field
from urllib.parse import quote

from ottla.base.values import dataclass
from ottla.console.audit import AuditLog
from ottla.console.confirming import Confirmations
from ottla.console.findings import Looks, Summary, doctor, summaries
from ottla.console.lags import LagHistory
from ottla.console.runs import Runs
from ottla.console.state_directory import StateDirectory
from ottla.console.targets import ConsoleTarget, Place
from ottla.diagnosis.complaints import Complaint

SIGNED_IN = 1000
IDLE_S = 12 * 3600.0


class Signed:
    """The signed-in visitors, each with the place of a user of the broker."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._places: OrderedDict[str, tuple[float, Place]] = OrderedDict()

    def find(self, visitor: str) -> Place | None:
        with self._lock:
            found = self._places.get(visitor)
            if found is not None and self._clock() - found[0] <= IDLE_S:
                self._places[visitor] = self._clock(), found[1]
                self._places.move_to_end(visitor)
                return found[1]
        self.sign_out(visitor)
        return None

    def sign_in(self, visitor: str, place: Place) -> None:
        left = []
        with self._lock:
            if visitor in self._places:
                left.append(self._places.pop(visitor)[1])
            self._places[visitor] = self._clock(), place
            while len(self._places) > SIGNED_IN:
                left.append(self._places.popitem(last=False)[1][1])
        for one in left:
            one.close()

    def sign_out(self, visitor: str) -> None:
        with self._lock:
            found = self._places.pop(visitor, None)
        if found is not None:
            found[1].close()

    def rename(self, visitor: str, new: str) -> None:
        """Keeps a visitor signed in who has signed in to another cluster, and has a new id."""
        with self._lock:
            if visitor in self._places:
                self._places[new] = self._places.pop(visitor)

    def close(self) -> None:
        with self._lock:
            places, self._places = list(self._places.values()), OrderedDict()
        for _, place in places:
            place.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleState:
    """The state of one console."""

    target: ConsoleTarget
    directory: StateDirectory
    """The files that outlive the console."""
    version: str = ""
    is_read_only: bool = False
    """Whether nothing can be changed through the console."""
    tables: tuple[str, ...] = ()
    """The tables whose loads are shown."""
    name: str = ""
    """The cluster's context; empty in a console of one cluster."""
    clusters: tuple[str, ...] = ()
    """All clusters of the console, by their contexts; none in a console of one cluster."""
    doctor: Looks[tuple[Complaint, ...]] = field(default_factory=doctor)
    summaries: Looks[Summary] = field(default_factory=summaries)
    lags: LagHistory = field(default_factory=LagHistory)
    signed: Signed = field(default_factory=Signed)
    confirmations: Confirmations = field(default_factory=Confirmations)
    runs: Runs = field(default_factory=Runs)
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set when the console stops; ends the streams."""

    @property
    def root(self) -> str:
        """What precedes the paths of this cluster's pages."""
        return root_of(self.name) if self.name else ""

    @property
    def audit(self) -> AuditLog:
        return AuditLog(self.directory)

    @staticmethod
    def now_ms() -> int:
        return round(time.time() * 1000)


def root_of(cluster: str) -> str:
    """The path under which the pages of one of several clusters are."""
    return f"/clusters/{quote(cluster, safe='')}"
