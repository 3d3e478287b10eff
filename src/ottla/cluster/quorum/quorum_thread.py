"""The thread `ottla-quorum`: a node in the metadata quorum, and the controller while it leads.

It owns the machine (`ottla/quorum`), its log, the replay of what is committed, and the controller.
Others talk to it by messages. Kafka's counterparts: `KafkaRaftClientDriver`, `MetadataLoader`, and
the event queue of `QuorumController`.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from ottla.base.clock import Clock, read_clock
from ottla.base.error_codes import ErrorCode
from ottla.base.errors import (
    ApiError,
    CorruptionError,
    OttlaError,
    ShortageError,
    StorageError,
)
from ottla.base.timestamps import Timestamps
from ottla.base.turns import InParts
from ottla.base.values import dataclass
from ottla.broker.metadata.quorum_snapshots import QuorumSnapshots, SnapshotWork
from ottla.cluster.peers import Connect
from ottla.cluster.quorum.bounded_stops import have_ended
from ottla.cluster.quorum.committed_image import CommittedImage
from ottla.cluster.quorum.complaints import Complaints
from ottla.cluster.quorum.decisions import Decisions, guarded, next_part
from ottla.cluster.quorum.fetched_snapshots import FetchedSnapshots
from ottla.cluster.quorum.log_syncs import LogSyncs
from ottla.cluster.quorum.quorum_channels import ChannelParts, QuorumChannels
from ottla.cluster.quorum.snapshotting import Snapshotting
from ottla.metadata.changes import ImageChanges
from ottla.metadata.image import MetadataImage
from ottla.metadata.log_writing import Batch, encoded
from ottla.quorum.effects import (
    Effect,
    FinishSnapshot,
    HighWatermarkMoved,
    LeaderChanged,
    LoadSnapshot,
    Reply,
    ReplyRecords,
    ReplySnapshot,
    Send,
    SyncLog,
    WriteElectionState,
    WriteSnapshot,
)
from ottla.quorum.election_state import ElectionState
from ottla.quorum.log import QuorumLog, carry_out, lineage_of
from ottla.quorum.machine import Quorum
from ottla.quorum.messages import (
    EndQuorumEpoch,
    Known,
    QuorumAnswer,
    Request,
    Response,
    SnapshotId,
    refusal_of,
)
from ottla.quorum.options import QuorumOptions
from ottla.quorum.roles import Leader
from ottla.quorum.status import ElectionNotes, QuorumStatus, status_of
from ottla.quorum.voters import VoterHistory, VoterSet
from ottla.record.builder import PackedRecords

logger = logging.getLogger(__name__)

T = TypeVar("T")

SLICE_MS: Final = 5.0
"""How long records are replayed before other nodes are answered."""

GOODBYE_S: Final = 1.0
"""How long a node that ends waits for the others to hear that it leads no longer."""

SHORTEST_MS: Final = 1.0
"""The least time to wait for what comes next."""

PAUSE_MS: Final = 1000.0
LONG_PAUSE_MS: Final = 10_000.0
"""The time before a controller is made again after one has failed; the longer one where no other
voter can do it.
"""

ASIDE_MS: Final = 5_000.0
"""How long others may stand for election first: of three voters two may be unable to decide."""


class Deciding(Protocol):
    """What the thread needs of the controller (`broker/controlling/active_controller.py`)."""

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets; it is set before each verb."""

    @end_offset.setter
    def end_offset(self, offset: int) -> None: ...

    def take_batches(self) -> Sequence[Batch]:
        """What was decided since the last call: batches, each of which is applied as a whole."""

    def note_time(self, at: Timestamps) -> None:
        """The time that the next verb has."""

    def advance(self, at: Timestamps) -> None:
        """Does what is due, once all has been told that had come until then."""

    @property
    def deadline_ms(self) -> float: ...


ControllerT = TypeVar("ControllerT", bound=Deciding)


class DurableLog(QuorumLog, Protocol):
    def sync(self) -> None:
        """Makes durable what was appended before the call; another thread calls it, beside all
        other methods. Raises `StorageError`.
        """

    def has_part(self, snapshot: SnapshotId) -> bool:
        """Whether what was written of a snapshot is there; raises `StorageError`."""


class ElectionStore(Protocol):
    """The file `quorum-state`."""

    def write(self, state: ElectionState, kraft_version: int, voters: VoterSet) -> None:
        """Durable when it returns; raises `StorageError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumParts(Generic[ControllerT]):
    """The collaborators: `log`, `elections`, `election` and `history` are those of `OpenedQuorum`
    (`broker/metadata/quorum_opening.py`); `connect` and `protocol` are those of `ChannelParts`.

    Without `snapshots` none are made. A broker has no `new_controller` (image, end of the log,
    epoch, time). `complain` gets a line for people. `failed` is called once, in the thread, if this
    node's part in the quorum ends by itself.
    """

    options: QuorumOptions
    log: DurableLog
    elections: ElectionStore
    election: ElectionState | None
    history: VoterHistory
    snapshots: QuorumSnapshots | None = None
    connect: Connect
    protocol: str = "PLAINTEXT"
    clock: Clock
    random_below: Callable[[int], int]
    new_controller: Callable[[MetadataImage, int, int, Timestamps], ControllerT] | None = None
    complain: Callable[[str], None]
    failed: Callable[[Exception], None]


class Published(NamedTuple):
    """What is committed, after one or more records, a snapshot, or a change of the leader."""

    image: MetadataImage
    changes: ImageChanges
    leader: Known
    high_watermark: int
    is_whole: bool
    """Whether `changes` say nothing: the first image, or that of a snapshot."""


class _Input(NamedTuple):
    """`refuse` is called in the place of `run` if the thread has ended before."""

    run: Callable[[], None]
    refuse: Callable[[], None]


class _Asker:
    """Who waits for the machine's response."""

    def __init__(self, request: Request, answered: Callable[[Response], None]) -> None:
        self.request = request
        self.answered = answered


def nothing() -> None:
    """What is done for an input that nobody waits for."""


NOT_CONTROLLER: Final = ErrorCode.NOT_CONTROLLER


class QuorumThread(Generic[ControllerT]):
    """Listeners, `answered` and `done` are called in the thread, and must return soon."""

    def __init__(self, parts: QuorumParts[ControllerT]) -> None:
        self._parts = parts
        self._quorum = Quorum(
            parts.options, lineage_of(parts.log), parts.history, parts.random_below
        )
        self._committed = CommittedImage(parts.log)
        self._inputs: SimpleQueue[_Input] = SimpleQueue()
        self._taken: deque[_Input] = deque()
        """What has come and is the next to be done."""
        self._heard_until = read_clock(parts.clock)
        """What had come until then is taken, and done before time passes for the controller: a
        broker is not silent whose heartbeat waits here behind a decision of seconds.
        """
        self._ending = Lock()
        self._is_over = False
        self._is_stopping = False
        self._askers: set[_Asker] = set()
        self._channels = QuorumChannels(
            ChannelParts(
                connect=parts.connect,
                protocol=parts.protocol,
                client_id=f"raft-client-{parts.options.key.id}",
                clock=parts.clock,
                answered=self._answered,
                complain=parts.complain,
            )
        )
        self._syncs = LogSyncs(parts.log.sync, self._synced)
        self._unsynced: SyncLog | None = None
        self._snapshotting = Snapshotting(parts.snapshots, self._snapshot_written)
        # What is told
        self._listeners: list[Callable[[Published], None]] = []
        self._published: Published | None = None
        self._committed_until: int | None = None
        """The high watermark, once somebody has told it."""
        self._has_news = False
        self._leader = Known(0)
        self._notes = ElectionNotes()
        self._status = QuorumStatus(state="unattached")
        self._complaints = Complaints(parts.complain, self._channels.silent)
        self._fetched_snapshots = FetchedSnapshots(parts.log, self._complaints)
        self._is_unreadable = False
        """Whether committed records could not be replayed."""
        # The controller
        self._controller: ControllerT | None = None
        self._controller_epoch = 0
        self._not_before_ms = -inf
        """When a controller may be made, after one could not be made."""
        self._decisions = Decisions()
        self._thread = Thread(target=self._run, name="ottla-quorum", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> bool:
        """Gives up leading, and ends the thread; what still waits is answered. Returns whether all
        has ended: not if the disk does not answer.
        """
        if self._thread.ident is None:
            self._end()
        else:
            self._post(_Input(self._stop, nothing))
        threads = (self._thread, self._syncs.thread, self._snapshotting.thread)
        return have_ended(threads, self._parts.clock, self._parts.complain)

    # For any thread

    def receive(self, request: Request, answered: Callable[[Response], None]) -> None:
        """A request of another node or of a tool; records and content are in the response."""
        asker = _Asker(request, answered)
        self._post(_Input(lambda: self._receive(asker), lambda: self._refuse(asker)))

    def ask(
        self, verb: Callable[[ControllerT], InParts[T]], done: Callable[[T | ApiError], None]
    ) -> None:
        """Runs a verb if this node leads and knows what is committed: what each of its parts
        decides is appended, and others are answered before the next.

        `done` is called when what was decided is committed; with NOT_CONTROLLER if this node does
        not lead, or ends leading before; and with the error that the verb raised.
        """

        def refuse() -> None:
            done(ApiError(NOT_CONTROLLER))

        self._post(_Input(lambda: self._decide(verb, done), refuse))

    def follow(self, listener: Callable[[Published], None]) -> None:
        """The listener is called in order; first with what is known as a whole, if anything is."""
        self._post(_Input(lambda: self._listen(listener), nothing))

    @property
    def leader(self) -> Known:
        """Epoch, leader and its endpoint, as far as is known."""
        return self._leader

    def status(self) -> QuorumStatus:
        return self._status

    def _post(self, one: _Input) -> None:
        with self._ending:
            if not self._is_over:
                self._inputs.put(one)
                return
        one.refuse()

    # The thread

    def _run(self) -> None:
        failure: Exception | None = None
        try:
            self._act(lambda at: self._quorum.start(self._parts.election, at))
            while not self._is_stopping:
                self._round()
        except StorageError as error:
            failure = error  # whoever is told of it says so
        except Exception as error:
            # The log may not have what the machine believes: nothing more may be claimed of it.
            failure = error
            logger.exception("the quorum's thread met an error that it did not expect, and ends")
        guarded(self._say_goodbye)
        self._end()
        if failure is not None:
            self._parts.failed(failure)

    def _round(self) -> None:
        """Takes what has come, and does what follows from all of it together."""
        self._await_inputs()
        while self._taken:
            self._taken.popleft().run()
            if self._is_stopping:
                return
        self._decisions.go_on()
        if self._now().monotonic_ms >= self._quorum.deadline_ms:
            self._act(self._quorum.advance)
        self._begin_sync()
        is_current = self._replay()
        if self._is_unreadable and self._quorum.is_leader and self._has_others:
            self._resign()
        if is_current:
            self._lead()
            self._publish()
            self._decisions.tell_committed(self._committed.end_offset)
        self._begin_sync()
        self._complaints.look(self._quorum, self._now())
        self._note_status()

    def _await_inputs(self) -> None:
        """Waits for the first; the others have come meanwhile."""
        wait_ms = self._due_ms() - self._now().monotonic_ms
        try:
            if wait_ms > -inf:
                timeout_s = None if wait_ms == inf else max(wait_ms, SHORTEST_MS) / 1000
                self._taken.append(self._inputs.get(timeout=timeout_s))
        except Empty:
            pass
        self._heard_until = self._now()
        for _ in range(self._inputs.qsize()):
            self._taken.append(self._inputs.get_nowait())

    def _due_ms(self) -> float:
        until = self._committed_until
        if until is not None and not self._is_unreadable and self._committed.end_offset < until:
            return -inf
        if self._decisions.has_more:
            return -inf
        due_ms = self._quorum.deadline_ms
        if self._controller is not None:
            due_ms = min(due_ms, self._controller.deadline_ms)
        elif self._quorum.is_leader and self._not_before_ms > self._now().monotonic_ms:
            due_ms = min(due_ms, self._not_before_ms)
        return due_ms

    def _now(self) -> Timestamps:
        return read_clock(self._parts.clock)

    def _stop(self) -> None:
        self._is_stopping = True

    def _say_goodbye(self) -> None:
        """The others need not wait for the fetch timeout."""
        if not isinstance(self._quorum.role, Leader) or not self._has_others:
            return
        for effect in self._quorum.resign(self._now()):
            match effect:
                case Send():
                    self._channels.send(effect)
                case Reply():
                    self._reply(effect.pending_id, effect.response)
                case _:
                    pass  # The next start finds that it led this epoch.
        self._channels.drain(GOODBYE_S)

    @property
    def _has_others(self) -> bool:
        node = self._quorum.node
        return bool(node.voters.others(node.own_id))

    def _end(self) -> None:
        with self._ending:
            self._is_over = True
        self._give_up_controller()
        while self._taken:
            guarded(self._taken.popleft().refuse)
        while not self._inputs.empty():
            guarded(self._inputs.get().refuse)
        for asker in [*self._askers]:
            guarded(self._refuse, asker)
        self._channels.stop()
        self._syncs.begin_stop()
        self._snapshotting.begin_stop()
        self._leader = Known(self._leader.epoch)
        self._status = replace(self._status, state="resigned", is_active_controller=False)

    # The machine

    def _act(self, call: Callable[[Timestamps], list[Effect]]) -> None:
        """An input of the machine; its effects are carried out before the next."""
        at = self._now()
        effects = call(at)
        self._notes.look(self._quorum.role, at)
        self._carry_out(effects)

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        parts = self._parts
        for effect in effects:
            match effect:
                case WriteElectionState():
                    parts.elections.write(effect.state, effect.kraft_version, effect.voters)
                case SyncLog():
                    self._unsynced = effect
                case Send():
                    self._channels.send(effect)
                case Reply():
                    self._reply(effect.pending_id, effect.response)
                case ReplyRecords():
                    records = parts.log.read(effect.offset, effect.max_bytes)
                    self._reply(effect.pending_id, effect.response._replace(records=records))
                case ReplySnapshot():
                    self._reply_snapshot(effect)
                case LeaderChanged():
                    self._leader_changed(effect)
                case HighWatermarkMoved():
                    self._committed_until = effect.offset
                    self._has_news = True
                case LoadSnapshot():
                    self._committed.load(effect.snapshot)
                    self._has_news = True
                case WriteSnapshot() | FinishSnapshot():
                    pass  # `FetchedSnapshots` has done it.
                case _:
                    carry_out(effect, parts.log)

    def _receive(self, asker: _Asker) -> None:
        if isinstance(asker.request, EndQuorumEpoch):
            self._notes.ended(asker.request)
        self._askers.add(asker)
        self._act(lambda at: self._quorum.receive(asker, asker.request, at))

    def _reply(self, asker: Any, response: Response) -> None:
        self._askers.discard(asker)
        if isinstance(response, QuorumAnswer):
            response = self._notes.added_to(response, self._quorum, self._now())
        guarded(asker.answered, response)

    def _reply_snapshot(self, effect: ReplySnapshot) -> None:
        log, answer = self._parts.log, effect.response
        if answer.snapshot not in set(log.snapshots):
            answer = answer._replace(error=ErrorCode.SNAPSHOT_NOT_FOUND)
        elif answer.position >= (size := log.snapshot_size(answer.snapshot)):
            answer = answer._replace(error=ErrorCode.POSITION_OUT_OF_RANGE)
        else:
            content = log.read_snapshot(answer.snapshot, answer.position, effect.max_bytes)
            answer = answer._replace(size=size, content=content)
        self._reply(effect.pending_id, answer)

    def _refuse(self, asker: _Asker) -> None:
        self._askers.discard(asker)
        asker.answered(refusal_of(asker.request, ErrorCode.BROKER_NOT_AVAILABLE, self._leader))

    def _answered(self, number: int, response: Response | None) -> None:
        """Called by a channel's thread."""

        def run() -> None:
            written = self._fetched_snapshots.written(self._quorum, number, response)
            self._act(lambda at: self._quorum.answered(number, written, at))

        self._post(_Input(run, nothing))

    def _begin_sync(self) -> None:
        effect, self._unsynced = self._unsynced, None
        if effect is not None:
            self._syncs.begin(effect)

    def _synced(self, effect: SyncLog, error: Exception | None) -> None:
        """Called by the thread that syncs."""

        def run() -> None:
            if error is not None:
                raise error
            self._act(lambda at: self._quorum.synced(effect, at))

        self._post(_Input(run, nothing))

    def _snapshot_written(self, work: SnapshotWork, error: Exception | None) -> None:
        """Called by the thread that has written a snapshot."""

        def run() -> None:
            if isinstance(error, ShortageError):
                self._complaints.no_snapshot(error.reason)
                self._snapshotting.put_off(self._now())
                return
            if error is not None:
                raise error
            self._complaints.no_snapshot("")
            self._snapshotting.made(self._quorum, work)
            while effects := self._snapshotting.delete(self._quorum, self._now()):
                self._carry_out(effects)

        self._post(_Input(run, nothing))

    def _leader_changed(self, effect: LeaderChanged) -> None:
        self._complaints.leader_changed(self._quorum, effect, self._leader, self._notes.reason)
        self._leader = self._quorum.node.known()
        self._has_news = True
        if self._controller is not None:
            self._give_up_controller()

    def _note_status(self) -> None:
        status = status_of(self._quorum, self._notes, self._committed.end_offset)
        self._leader = self._quorum.node.known()
        is_active, refusal = self._controller is not None, self._channels.refusal
        self._status = replace(status, is_active_controller=is_active, refusal=refusal)

    # What is committed

    def _replay(self) -> bool:
        """Replays for a while; returns whether the image has all that is committed."""
        until = self._committed_until
        if until is None or self._is_unreadable:
            return not self._is_unreadable
        end_ms = self._now().monotonic_ms + SLICE_MS
        try:
            return self._committed.advance(until, lambda: self._now().monotonic_ms >= end_ms)
        except CorruptionError as error:
            self._is_unreadable = True
            self._parts.complain(
                f"records of the metadata log cannot be followed, and this node cannot lead: "
                f"{error}; a newer version may know them"
            )
            return False

    def _publish(self) -> None:
        """Nothing before a leader has told what is committed: an older state is of no use."""
        if not self._has_news or self._committed_until is None:
            return
        self._has_news = False
        image, changes, is_whole = self._committed.take()
        published = Published(image, changes, self._leader, self._quorum.high_watermark, is_whole)
        self._published = published
        self._snapshotting.begin_if_due(self._quorum, image, self._now())
        for listener in self._listeners:
            guarded(listener, published)

    def _listen(self, listener: Callable[[Published], None]) -> None:
        self._listeners.append(listener)
        if self._published is not None:
            whole = self._published._replace(changes=ImageChanges(), is_whole=True)
            guarded(listener, whole)

    # The controller

    def _lead(self) -> None:
        """Makes a controller once all is committed and known that earlier leaders have decided, and
        lets it do what is due.
        """
        if self._controller is None:
            self._make_controller()
        elif self._heard_until.monotonic_ms >= self._controller.deadline_ms:
            self._advance(self._controller)

    def _make_controller(self) -> None:
        quorum, new_controller, at = self._quorum, self._parts.new_controller, self._now()
        if new_controller is None or not quorum.is_leader:
            return
        if at.monotonic_ms < self._not_before_ms:
            return
        self._publish()
        assert self._published is not None
        try:
            controller = new_controller(self._published.image, quorum.next_offset, quorum.epoch, at)
        except OttlaError as error:
            self._complaints.cannot_decide(str(error))
            self._resign()
            return
        except Exception:
            logger.exception("no controller could be made; this node gives up leading")
            self._resign()
            return
        self._controller, self._controller_epoch = controller, quorum.epoch
        self._advance(controller)

    def _advance(self, controller: ControllerT) -> None:
        self._let_decide(controller, lambda: controller.advance(self._heard_until))

    def _decide(
        self, verb: Callable[[ControllerT], InParts[T]], done: Callable[[T | ApiError], None]
    ) -> None:
        controller = self._controller
        if controller is None:
            guarded(done, ApiError(NOT_CONTROLLER))
            return
        parts = verb(controller)

        def give_up() -> None:
            done(ApiError(NOT_CONTROLLER))

        def go_on() -> bool:
            return self._decide_part(controller, parts, done, give_up)

        self._decisions.begin(go_on, give_up)

    def _decide_part(
        self,
        controller: ControllerT,
        parts: InParts[T],
        done: Callable[[T | ApiError], None],
        give_up: Callable[[], None],
    ) -> bool:
        """Returns whether that was the last part."""
        results: list[T] = []
        refusal = self._let_decide(controller, lambda: next_part(parts, results))
        if refusal is None and self._controller is not controller:
            refusal = ApiError(NOT_CONTROLLER)
        if refusal is not None:
            guarded(done, refusal)
            return True
        for result in results:
            # What nothing was appended for may rest on what is not committed yet.
            offset = self._quorum.next_offset - 1
            self._decisions.await_commit(offset, partial(done, result), give_up)
        return bool(results)

    def _let_decide(self, controller: ControllerT, call: Callable[[], T]) -> T | ApiError:
        """Appends what is decided. After an error that it does not expect this node gives up
        leading, since nobody knows what the controller believes.
        """
        try:
            # A new controller has decided before it is asked.
            controller.end_offset = max(controller.end_offset, self._quorum.next_offset)
            controller.note_time(self._heard_until)
            outcome = call()
            batches = [encoded(batch) for batch in controller.take_batches()]
        except Exception:
            logger.exception("the controller met an error that it did not expect")
            self._resign()
            return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        return self._append(controller, batches) or outcome

    def _append(
        self, controller: ControllerT, batches: list[Sequence[bytes] | PackedRecords]
    ) -> ApiError | None:
        quorum = self._quorum
        for values in batches:
            try:
                _, effects = quorum.append(values, self._controller_epoch, self._now())
            except ApiError as error:
                if self._controller is controller:
                    logger.error("what the controller decided was not appended: %s", error)
                    self._resign()
                return error
            self._carry_out(effects)
        if batches and self._controller is controller:
            expected = controller.end_offset
            if expected != quorum.next_offset:
                logger.error(
                    "the controller expected to have decided until offset %d, not %d",
                    expected,
                    quorum.next_offset,
                )
                self._resign()
                return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        return None

    def _resign(self) -> None:
        """Another voter may do better; the only one begins anew with what is committed."""
        pause_ms = PAUSE_MS if self._has_others else LONG_PAUSE_MS
        aside_ms = ASIDE_MS if self._has_others else 0.0
        self._not_before_ms = self._now().monotonic_ms + pause_ms
        self._complaints.gives_up = True
        self._act(lambda at: self._quorum.resign(at, aside_ms))
        self._complaints.gives_up = False

    def _give_up_controller(self) -> None:
        """What it has decided and is not committed may never be."""
        self._controller = None
        self._decisions.give_up(self._quorum.high_watermark)
