"""A broker in ZooKeeper: its id, its node, and its controller.

One thread passes events to the controller's state machine and carries out its operations. If the
session has expired, or may have because the connection is lost, `fenced` is called first: another
broker may lead by then, so this one must lead nothing. Afterwards the broker registers again and
gets a new broker epoch.

Kafka's counterparts: `KafkaServer.startup`, `KafkaController.RegisterBrokerAndReelect`.
"""

import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import Enum, auto
from itertools import count
from queue import Empty, SimpleQueue
from threading import Event as Flag
from threading import Lock, Thread, Timer
from typing import Any, Final, TypeVar

from ottla.base.clock import Clock
from ottla.base.error_codes import ErrorCode
from ottla.base.errors import UserError
from ottla.base.values import dataclass
from ottla.cluster.access import Access
from ottla.cluster.session import SessionLostError, ZooKeeperSession
from ottla.controller.acls import FoundAcls, acl_notices
from ottla.controller.context import LiveBroker
from ottla.controller.events import Answer, Elect, Event, NodeChanged, Request, SessionLost
from ottla.controller.machine import ControllerMachine
from ottla.controller.notices import NoticeFolder
from ottla.controller.operations import (
    Batch,
    Create,
    Delete,
    Get,
    Operation,
    Outcome,
    Result,
    Set,
    Steps,
)
from ottla.controller.parts import ControllerOptions
from ottla.controller.requests import Outgoing
from ottla.controller.settings import Settings, config_notices
from ottla.controller.tokens import FoundTokens, token_notices
from ottla.metadata.brokers import BrokerRegistration
from ottla.zookeeper import paths
from ottla.zookeeper.brokers import decode_broker, encode_broker, registration_version
from ottla.zookeeper.controllers import decode_cluster_id, encode_cluster_id
from ottla.zookeeper.nodes import NodeError

logger = logging.getLogger(__name__)

T = TypeVar("T")

POLL_S: Final = 0.05
GENERATED_ID: Final = -1
NO_GENERATION: Final = -1
PATIENCE: Final = 2
"""How many session timeouts to wait for the node of an earlier process to disappear."""

NO_CONTROLLER: Final = Answer(error=ErrorCode.NOT_CONTROLLER)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberOptions:
    """`cluster_id` is that of the directory, `None` for a new one; `broker_id` -1: generate one."""

    connect: str
    broker_id: int = GENERATED_ID
    cluster_id: str | None = None
    controller: ControllerOptions
    """Its broker id is replaced by the member's."""
    session_timeout_ms: int = 18_000
    connection_timeout_ms: int | None = None
    access: Access | None = None
    has_acls: bool = False
    """Whether access rules are stored in ZooKeeper and followed."""
    has_tokens: bool = False
    """Whether delegation tokens are stored in ZooKeeper and followed."""
    reserved_max_id: int = 1000
    """reserved.broker.max.id: generated ids are above it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Callbacks:
    """Called by the member's threads; `registered` is first called by `start`.

    `fenced`: stop leading; may be called twice. `registered`: the new broker epoch. `send`:
    requests to brokers, and the live brokers; `None` if this broker is not the controller.
    `configured`: changed settings. `ruled`: changed access rules. `tokens_changed`: changed
    delegation tokens. `complain`: one line for people.
    """

    fenced: Callable[[], None]
    registered: Callable[[int], None]
    send: Callable[[Sequence[Outgoing], Mapping[int, LiveBroker] | None], None]
    configured: Callable[[Settings], None]
    ruled: Callable[[FoundAcls], None]
    tokens_changed: Callable[[FoundTokens], None]
    complain: Callable[[str], None]


class _Notice(Enum):
    LOST = auto()
    STOP = auto()


@dataclass(slots=True)
class _Run:
    make: Callable[[], Steps[Any]]
    done: Callable[[Any], None]


class ClusterMember:
    """The broker in ZooKeeper. `join` determines its ids; `start` registers it until `stop`."""

    def __init__(
        self,
        options: MemberOptions,
        callbacks: Callbacks,
        clock: Clock,
        new_cluster_id: Callable[[], str],
    ) -> None:
        self._options = options
        self._callbacks = callbacks
        self._clock = clock
        self._new_cluster_id = new_cluster_id
        self._queue: SimpleQueue[Event | _Run | _Notice] = SimpleQueue()
        self._asking = Lock()
        self._asked: dict[Hashable, Callable[[Answer], None]] = {}
        self._unfinished: list[_Run] = []
        self._numbers = count()
        self._fence: Timer | None = None
        self._is_unreachable = False
        self._is_away = False
        """Fenced and not registered again yet."""
        self._generation = 0
        self._session = ZooKeeperSession(
            options.connect,
            options.session_timeout_ms,
            changed=lambda path: self._queue.put(NodeChanged(path)),
            lost=lambda: self._queue.put(_Notice.LOST),
            suspended=self._suspended,
            access=options.access,
        )
        self._thread = Thread(target=self._run, name="ottla-cluster", daemon=True)
        self._machine: ControllerMachine
        self._registration: BrokerRegistration
        self._notices = self._notices_of(options)
        self._sent_to: Mapping[int, LiveBroker] | None = None
        self.broker_epoch = -1
        self.broker_id = options.broker_id
        self.cluster_id = ""
        self.is_controller = False

    def join(self) -> None:
        """Determines cluster id and broker id; raises `UserError`."""
        options = self._options
        timeout_ms = options.connection_timeout_ms or options.session_timeout_ms
        self._session.start(timeout_ms / 1000)
        try:
            self._session.create_missing(paths.PERSISTENT)
            if options.has_acls:
                self._session.create_missing(paths.PERSISTENT_WITH_ACLS)
            if options.has_tokens:
                self._session.create_missing(paths.PERSISTENT_WITH_TOKENS)
            self.cluster_id = self._join_cluster()
            if self.broker_id == GENERATED_ID:
                self.broker_id = self._generate_id()
        except BaseException:
            self._session.close()
            raise
        self._machine = ControllerMachine(replace(options.controller, broker_id=self.broker_id))

    def start(self, registration: BrokerRegistration) -> None:
        """Registers the broker, so that others connect to it; raises `UserError`."""
        self._registration = registration
        try:
            self._register()
        except SessionLostError as error:
            raise UserError(
                f"zookeeper.connect={self._options.connect}: the session ended before the broker "
                "had registered; start it again when ZooKeeper can be reached"
            ) from error
        self._queue.put(Elect())
        self._look_at_notices()
        self._thread.start()

    def stop(self) -> None:
        """Leaves the cluster; the broker's node is removed at once."""
        self._queue.put(_Notice.STOP)
        # End operations that wait for ZooKeeper, which may be unavailable.
        self._session.close()
        if self._thread.ident is not None:
            self._thread.join()
        if self._fence is not None:
            self._fence.cancel()

    def post(self, event: Event) -> None:
        self._queue.put(event)

    def begin(self, request: Request, answered: Callable[[Answer], None]) -> None:
        """Passes a request to this broker's controller and calls `answered` with its response.

        The response is NOT_CONTROLLER if this broker is not the controller. If ZooKeeper becomes
        unreachable, pending requests get it too, because nobody knows for how long.
        """
        numbered = replace(request, pending_id=next(self._numbers))
        with self._asking:
            is_refused = self._is_away
            if not is_refused:
                self._asked[numbered.pending_id] = answered
                self._queue.put(numbered)
        if is_refused:
            answered(NO_CONTROLLER)

    def ask(self, request: Request, timeout_s: float) -> Answer:
        """Like `begin`, but waits for the response."""
        answers: SimpleQueue[Answer] = SimpleQueue()
        self.begin(request, answers.put)
        try:
            return answers.get(timeout=timeout_s)
        except Empty:
            return Answer(error=ErrorCode.REQUEST_TIMED_OUT)

    def run(self, make: Callable[[], Steps[T]], done: Callable[[T], None]) -> None:
        """Carries out steps in the member's thread; starts them again after a lost session."""
        self._queue.put(_Run(make, done))

    # Joining

    def _do(self, operation: Operation) -> Result:
        (result,) = self._session.execute(Batch(operations=(operation,)), self._generation)
        return result

    def _join_cluster(self) -> str:
        known = self._options.cluster_id
        found = self._do(Get(paths.CLUSTER_ID))
        if not found.is_done:
            self._session.create_missing(("/cluster",))
            self._do(Create(paths.CLUSTER_ID, encode_cluster_id(known or self._new_cluster_id())))
            found = self._do(Get(paths.CLUSTER_ID))
        try:
            cluster_id = decode_cluster_id(found.content)
        except NodeError as error:
            raise UserError(f"zookeeper.connect={self._options.connect}: {error}") from error
        if known not in (None, cluster_id):
            raise UserError(
                f"zookeeper.connect={self._options.connect}: it has cluster {cluster_id}, but "
                f"the data directory belongs to cluster {known}; name the ZooKeeper of that cluster"
            )
        return cluster_id

    def _generate_id(self) -> int:
        """Generates an id from the version of a node: each write gets another version."""
        return self._options.reserved_max_id + self._do(Set(paths.BROKER_SEQUENCE, b"")).version

    def _register(self) -> None:
        """Registers; waits for the node of a killed process to expire, else raises `UserError`."""
        options = self._options
        path = paths.broker_path(self.broker_id)
        deadline_ms = self._clock.monotonic_ms() + PATIENCE * options.session_timeout_ms
        while True:
            registration = replace(
                self._registration,
                timestamp_ms=self._clock.now_ms(),
                version=registration_version(options.controller.version),
            )
            result = self._do(Create(path, encode_broker(registration), is_ephemeral=True))
            if result.outcome is Outcome.DONE:
                break
            stat = self._session.stat(path)
            if stat is not None and stat.ephemeralOwner == self._session.session_id:
                # This process created the node before it lost the connection or was fenced.
                self._do(Delete(path))
                continue
            if self._clock.monotonic_ms() > deadline_ms:
                raise UserError(f"broker.id={self.broker_id}: {self._taken_by(path)}")
            Flag().wait(POLL_S)
        stat = self._session.stat(path)
        if stat is None:
            raise SessionLostError
        self.broker_epoch = stat.czxid
        self._callbacks.registered(stat.czxid)

    def _taken_by(self, path: str) -> str:
        with suppress(NodeError):
            found = decode_broker(self.broker_id, self._do(Get(path)).content)
            places = ", ".join(one.connection_text for one in found.endpoints)
            return f"a broker at {places} has this id in the cluster; choose another, or stop it"
        return "another broker has this id in the cluster; choose another, or stop it"

    # The thread

    def _run(self) -> None:
        while True:
            event = self._queue.get()
            if event is _Notice.STOP:
                break
            try:
                with suppress(SessionLostError):
                    self._handle(event)
                self._hand_over()
            except Exception:
                # If this thread ended, the broker would stay registered, perhaps as the controller.
                logger.exception("the broker starts a new session with ZooKeeper after a fault")
                self._out_of_time()
                Flag().wait(POLL_S)
        self._machine.receive(SessionLost())
        self._hand_over()

    def _suspended(self, is_so: bool) -> None:
        """Fences after a third of the session timeout without a connection.

        kazoo learns of an expired session only when it is connected again, and notices a silent
        ZooKeeper after two thirds of the session timeout.
        """
        if self._fence is not None:
            self._fence.cancel()
            self._fence = None
        if is_so:
            self._fence = Timer(self._options.session_timeout_ms / 3000, self._unreachable)
            self._fence.daemon = True
            self._fence.start()

    def _unreachable(self) -> None:
        self._is_unreachable = True
        self._out_of_time()
        self._callbacks.complain(
            f"zookeeper.connect={self._options.connect}: ZooKeeper cannot be reached; "
            "this broker leads nothing until it can: start ZooKeeper, or repair the network"
        )

    def _out_of_time(self) -> None:
        with self._asking:
            self._is_away = True
            asked, self._asked = self._asked, {}
        self._callbacks.fenced()
        self._session.give_up()
        self._queue.put(_Notice.LOST)
        # The thread itself may be waiting for ZooKeeper indefinitely.
        for answered in asked.values():
            answered(NO_CONTROLLER)

    def _handle(self, event: Event | _Run | _Notice) -> None:
        match event:
            case _Notice.LOST:
                if self._generation != self._session.generation:
                    try:
                        self._begin_again()
                    except SessionLostError:
                        self._generation = NO_GENERATION
                        self._queue.put(_Notice.LOST)
                        raise
            case _Notice.STOP:
                raise AssertionError("handled by the caller")
            case _ if isinstance(event, Request) and event.pending_id not in self._asked:
                pass  # answered without the machine
            case _Run():
                self._carry_out(event)
            case NodeChanged(path=path) if path in self._notices:
                self._carry_out(self._notices[path])
            case _:
                self._machine.receive(event)
                self._pump()

    def _begin_again(self) -> None:
        """Stops leading, drops the controller's state, and registers again."""
        self._callbacks.fenced()
        self._machine.receive(SessionLost())
        self._hand_over()
        self._generation = self._session.generation
        self._session.wait_connected(self._generation)
        stat = self._session.stat(paths.CONTROLLER)
        if stat is not None and stat.ephemeralOwner == self._session.session_id:
            # The machine does not know of this node: it was created in an old session or before the
            # fence.
            self._do(Delete(paths.CONTROLLER))
        try:
            self._register()
        except UserError as error:
            self._callbacks.complain(str(error))
            self._session.give_up()
            self._queue.put(_Notice.LOST)
            return
        self._is_away = False
        if self._is_unreachable:
            self._is_unreachable = False
            self._callbacks.complain("ZooKeeper is reachable again, and the broker has registered")
        unfinished, self._unfinished = self._unfinished, []
        for run in unfinished:
            self._queue.put(run)
        self._look_at_notices()
        self._machine.receive(Elect())
        self._pump()

    def _notices_of(self, options: MemberOptions) -> dict[str, _Run]:
        """The steps to run when a folder of notices has changed."""

        def following(folder: NoticeFolder[Any, T], done: Callable[[T], None]) -> _Run:
            return _Run(lambda: folder.follow(self._clock.now_ms()), done)

        configs = config_notices()
        found = {configs.path: following(configs, self._callbacks.configured)}
        for folder in acl_notices() if options.has_acls else ():
            found[folder.path] = following(folder, self._callbacks.ruled)
        if options.has_tokens:
            tokens = token_notices()
            found[tokens.path] = following(tokens, self._callbacks.tokens_changed)
        return found

    def _look_at_notices(self) -> None:
        for path in self._notices:
            self._queue.put(NodeChanged(path))

    def read(self, steps: Steps[T]) -> T:
        """Carries out steps immediately; called before `start`, or by the member's thread.

        Raises `SessionLostError`.
        """
        return self._session.run(steps, self._generation)

    def _carry_out(self, run: _Run) -> None:
        """Runs steps; after a lost session they run again in the next session."""
        try:
            found = self.read(run.make())
        except NodeError as error:
            self._callbacks.complain(str(error))
            return
        except SessionLostError:
            self._unfinished.append(run)
            raise
        try:
            run.done(found)
        except Exception:
            logger.exception("could not handle a result of ZooKeeper")

    def _pump(self) -> None:
        """Carries out all operations that the machine wants."""
        self._machine.now_ms = self._clock.now_ms()
        results: tuple[Result, ...] | None = None
        while (batch := self._machine.advance(results)) is not None:
            self._hand_over()
            try:
                results = self._session.execute(batch, self._generation)
            except SessionLostError:
                # The notice of the lost session is queued or will be.
                self._machine.receive(SessionLost())
                raise

    def _hand_over(self) -> None:
        machine = self._machine
        self.is_controller = machine.is_active
        outgoing = machine.take_outgoing()
        brokers = dict(machine.context.brokers) if machine.is_active else None
        if outgoing or brokers != self._sent_to:
            self._sent_to = brokers
            self._callbacks.send(outgoing, brokers)
        for line in machine.take_complaints():
            self._callbacks.complain(line)
        for pending_id, answer in machine.take_answers():
            with self._asking:
                answered = self._asked.pop(pending_id, None)
            if answered is not None:
                answered(answer)
