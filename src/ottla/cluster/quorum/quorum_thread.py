"""The thread `ottla-quorum`: a node in the metadata quorum, and the controller while it leads.

It owns the machine (`ottla/quorum`), its log, the replay of what is committed, and the controller.
Others talk to it by messages. Kafka's counterparts: `KafkaRaftClientDriver`, `MetadataLoader`, and
the event queue of `QuorumController`.
"""

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from ottla.base.clock import Clock
from ottla.base.errors import ApiError, OttlaError
from ottla.base.timestamps import Timestamps
from ottla.base.values import dataclass
from ottla.cluster.peers import Connect
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_changes import VersionedRecord
from ottla.quorum.election_state import ElectionState
from ottla.quorum.log import QuorumLog
from ottla.quorum.messages import Known, Request, Response
from ottla.quorum.options import QuorumOptions
from ottla.quorum.voters import NO_VOTERS, VoterSet

T = TypeVar("T")


class Deciding(Protocol):
    """What the thread needs of the controller (`broker/controlling/active_controller.py`)."""

    image: MetadataImage
    """With all that was decided, committed or not."""
    end_offset: int
    """The offset that the next record gets; set before each call."""

    def take_batches(self) -> Sequence[Sequence[VersionedRecord]]:
        """What was decided since the last call: batches, each of which is applied as a whole."""

    def advance(self, at: Timestamps) -> None: ...

    @property
    def deadline_ms(self) -> float: ...


ControllerT = TypeVar("ControllerT", bound=Deciding)


class DurableLog(QuorumLog, Protocol):
    def sync(self) -> None:
        """Makes durable what was appended before the call; another thread calls it, beside all
        other methods. Raises `StorageError`.
        """


class ElectionStore(Protocol):
    """The file `quorum-state`."""

    def read(self) -> ElectionState | None:
        """`ElectionState()` in a directory that was never used, `None` if the file is lost."""

    def write(self, state: ElectionState, kraft_version: int, voters: VoterSet) -> None:
        """Durable when it returns; raises `StorageError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumParts(Generic[ControllerT]):
    """The collaborators. `settings_voters` are those of `controller.quorum.voters`, which count
    with kraft.version 0; `protocol` is the security protocol of the controllers' listeners.

    A broker has no `new_controller` (image, end of the log, epoch, time). `complain` gets one line
    for people. `failed` is called once, if this node's part in the quorum ends by itself.
    """

    options: QuorumOptions
    log: DurableLog
    elections: ElectionStore
    settings_voters: VoterSet = NO_VOTERS
    connect: Connect
    protocol: str = "PLAINTEXT"
    clock: Clock
    random_below: Callable[[int], int]
    new_controller: Callable[[MetadataImage, int, int, Timestamps], ControllerT] | None = None
    complain: Callable[[str], None]
    failed: Callable[[OttlaError], None]


class Published(NamedTuple):
    """What is committed, after one or more records, a snapshot, or a change of the leader."""

    image: MetadataImage
    leader: Known
    high_watermark: int
    is_whole: bool
    """Whether anything may have changed: the first image, or that of a snapshot."""


class QuorumThread(Generic[ControllerT]):
    def __init__(self, parts: QuorumParts[ControllerT]) -> None:
        self._parts = parts
        self._leader = Known(0)

    def start(self) -> None:
        """Begins to take part; raises `StorageError` and `ProtocolError` for a damaged log."""

    def stop(self) -> None:
        """Gives up leading, and ends the thread; what still waits is answered."""

    # For any thread

    def receive(self, request: Request, answered: Callable[[Response], None]) -> None:
        """A request of another node or of a tool; `answered` is called in the quorum's thread, with
        records and content in the response.
        """

    def ask(self, verb: Callable[[ControllerT], T], done: Callable[[T | ApiError], None]) -> None:
        """Runs a verb if this node leads and knows what is committed.

        `done` is called in the quorum's thread when what the verb decided is committed; with
        NOT_CONTROLLER if this node does not lead, or ends leading before; and with the error that
        the verb raised.
        """

    def follow(self, listener: Callable[[Published], None]) -> None:
        """The listener is called in the quorum's thread, in order; first with what is known."""

    @property
    def leader(self) -> Known:
        """Epoch, leader and its endpoint, as far as is known."""
        return self._leader
