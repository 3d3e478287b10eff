"""A session with ZooKeeper: carries out the controller's operations, and reports its end.

Kazoo keeps the connection and begins a new session after one has expired; operations of the old
session then raise `SessionLostError`. After a lost connection it is unknown whether a write was
done, so it is repeated, as in Kafka, and the caller must expect that it was done before.

Kafka's counterparts: `ZooKeeperClient`, `KafkaZkClient.retryRequestsUntilConnected`.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from threading import Condition, Event, Lock, Thread
from typing import Any, Final, TypeAlias, TypeVar
from warnings import catch_warnings, simplefilter

from ottla.base.errors import UserError
from ottla.base.extras import needed_for
from ottla.base.values import dataclass
from ottla.cluster.access import Access
from ottla.controller.operations import (
    Batch,
    Children,
    Create,
    Delete,
    Get,
    Operation,
    Outcome,
    Result,
    Set,
    Steps,
)
from ottla.zookeeper import paths

T = TypeVar("T")

Operations: TypeAlias = tuple[Operation, ...]

GROUP_COUNT: Final = 100
GROUP_SIZE: Final = 128 * 1024
"""Limits of a transaction: its writes, and the bytes of their content. ZooKeeper rejects requests
of more than a megabyte (`jute.maxbuffer`).
"""

LOGIN_RETRY_S = 1.0


class SessionLostError(Exception):
    """The session in which an operation was started has ended."""


class ZooKeeperSession:
    """A session. Callbacks are called by a thread of kazoo.

    `changed` gets the path of a watched node that changed. After a lost connection it also gets the
    path of each lost watch, once the session is connected again, because the node may have changed
    meanwhile. `lost` is called when a session has expired, `suspended` with whether there is no
    connection. `access` secures connections and sessions.
    """

    def __init__(
        self,
        address: str,
        session_timeout_ms: int,
        changed: Callable[[str], None],
        lost: Callable[[], None],
        suspended: Callable[[bool], None],
        access: Access | None = None,
    ) -> None:
        with needed_for("zookeeper.connect"):
            from kazoo import exceptions
            from kazoo.client import KazooClient, KazooState
            from kazoo.protocol.states import EventType, KeeperState
            from kazoo.retry import KazooRetry
        # kazoo logs each attempt to connect; relevant errors are raised or reported by `lost`.
        logging.getLogger("kazoo").setLevel(logging.CRITICAL)
        self._address = address
        self._errors = exceptions
        self._states = KazooState
        self._no_event = EventType.NONE
        self._connecting = KeeperState.CONNECTING
        self._auth_failed, self._ended = KeeperState.AUTH_FAILED, KeeperState.CLOSED
        self._changed, self._lost, self._suspended = changed, lost, suspended
        self._lock = Lock()
        self._connected = Condition(self._lock)
        self._is_connected = False
        self._unwatched: set[str] = set()
        self._is_closed = False
        self._is_refused = False
        self._closing = Event()
        self._watch: Thread | None = None
        self.generation = 0
        """How many sessions have expired or were given up."""
        self._access = access or Access()
        self._secured = self._access.connections()
        self._client = KazooClient(
            hosts=address,
            timeout=session_timeout_ms / 1000,
            connection_retry=KazooRetry(max_tries=-1, delay=0.05, max_delay=1.0),
            **self._access.options(self._secured),
        )
        self._client.add_listener(self._state_changed)

    def start(self, timeout_s: float) -> None:
        """Connects; raises `UserError` if ZooKeeper is unreachable or lacks the chroot."""
        from kazoo.handlers.threading import KazooTimeoutError

        place = f"zookeeper.connect={self._address}"
        try:
            with catch_warnings():
                # the warning of a missing chroot, which is an error below
                simplefilter("ignore")
                self._client.start(timeout=timeout_s)
            has_chroot = self._client.exists("/") is not None
        except (KazooTimeoutError, self._errors.KazooException, OSError, ValueError) as error:
            self.close()
            if self._is_refused:
                raise self._access.refused(place) from error
            failure = None if self._secured is None else self._secured.failure
            reason = str(failure or error) or type(error).__name__
            raise UserError(
                f"{place}: ZooKeeper cannot be reached ({reason}); start it, or name another one; "
                "a broker alone needs none: -o zookeeper.connect= leaves it out"
            ) from error
        if not has_chroot:
            self.close()
            chroot = "/" + self._address.partition("/")[2]
            raise UserError(
                f"{place}: there is no node {chroot}; create it, or name the cluster's chroot"
            )
        if self._access.login is not None:
            self._watch = Thread(target=self._keep_logged_in, name="ottla-login", daemon=True)
            self._watch.start()

    def close(self) -> None:
        """Ends the session, so that its ephemeral nodes are removed at once."""
        with self._lock:
            self._is_closed = True
            self._connected.notify_all()
        self._closing.set()
        if self._watch is not None:
            self._watch.join()
        self._client.stop()
        self._client.close()

    def give_up(self) -> None:
        """Treats the session as expired: waiting callers get `SessionLostError`."""
        with self._lock:
            self.generation += 1
            self._connected.notify_all()

    @property
    def session_id(self) -> int:
        """The session id as in `ephemeralOwner`; 0 before the first session."""
        known = self._client.client_id
        return 0 if known is None else int(known[0])

    def _state_changed(self, state: Any) -> None:
        with self._lock:
            self._is_connected = state == self._states.CONNECTED
            is_lost = state == self._states.LOST
            self._is_refused = self._client.client_state == self._auth_failed
            if is_lost:
                self.generation += 1
                self._unwatched.clear()  # The next session reads everything again.
            unwatched = self._take_unwatched()
            self._connected.notify_all()
        if is_lost:
            self._lost()
        else:
            self._suspended(state == self._states.SUSPENDED)
        for path in unwatched:
            self._changed(path)

    def _keep_logged_in(self) -> None:
        """Restarts kazoo, whose thread ends when a login fails.

        The cause may be a stop of ZooKeeper during the login, or a change of its users. Kafka's
        `ZooKeeperClient` also retries, after the same time.
        """
        while not self._closing.wait(LOGIN_RETRY_S):
            if self._client.client_state in (self._auth_failed, self._ended):
                with suppress(self._errors.KazooException):
                    # ignored after a stop, which would otherwise end the next session too
                    self._client.start_async()

    # The controller's operations

    def execute(self, batch: Batch, generation: int | None = None) -> tuple[Result, ...]:
        """Returns a result per operation; raises `SessionLostError` if session `generation` is
        over.
        """
        generation = self.generation if generation is None else generation
        if batch.is_atomic:
            return self._together(batch.operations, generation)
        fence = batch.epoch_version
        groups = [(one,) for one in batch.operations] if fence is None else in_groups(batch)
        return tuple(self._in_groups(groups, fence, generation))

    def run(self, steps: Steps[T], generation: int | None = None) -> T:
        """Carries out steps one after the other; raises `SessionLostError`, and errors of the
        steps.
        """
        results: tuple[Result, ...] | None = None
        try:
            while True:
                batch = next(steps) if results is None else steps.send(results)
                results = self.execute(batch, generation)
        except StopIteration as stop:
            found: T = stop.value
            return found

    def wait_connected(self, generation: int) -> None:
        """Waits for a connection in the same session; raises `SessionLostError` if the session
        ends.
        """
        with self._connected:
            while generation == self.generation and not self._is_closed and not self._is_connected:
                self._connected.wait()
            if generation != self.generation or self._is_closed:
                raise SessionLostError

    def _in_groups(
        self, groups: Iterable[Operations], fence: int | None, generation: int
    ) -> Iterator[Result]:
        """Starts all operations before it waits for the first, so that they are pipelined."""
        waiting = [(group, self._begin_group(group, fence)) for group in groups]
        for group, asked in waiting:
            if len(group) == 1:
                yield self._end(group[0], asked, fence, generation)
            else:
                yield from self._end_group(group, asked, fence, generation)

    def _begin_group(self, group: Operations, fence: int | None) -> Any:
        if len(group) == 1:
            return self._begin(group[0], fence)
        return self._transaction(group, fence).commit_async()

    def _end_group(
        self, group: Operations, asked: Any, fence: int | None, generation: int
    ) -> Iterable[Result]:
        """Finishes a transaction; if an operation in it failed, repeats each operation alone."""
        try:
            results = asked.get()
            if self._is_missed(results[0]) or not any(
                isinstance(one, Exception) for one in results
            ):
                return self._written(results, fence)
        except (self._errors.ConnectionLoss, self._errors.ConnectionClosedError) as error:
            if self._is_closed:
                raise SessionLostError from error
            self.wait_connected(generation)
        except (self._errors.SessionExpiredError, self._errors.AuthFailedError) as error:
            raise SessionLostError from error
        return self._in_groups([(one,) for one in group], fence, generation)

    def _begin(self, operation: Operation, fence: int | None) -> Any:
        watch = self._watcher(operation.path) if getattr(operation, "watch", False) else None
        match operation:
            case Get(path=path):
                return self._client.get_async(path, watch)
            case Children(path=path):
                return self._client.get_children_async(path, watch)
            case Delete():
                return None
            case _:
                return self._transaction((operation,), fence).commit_async()

    def _end(self, operation: Operation, asked: Any, fence: int | None, generation: int) -> Result:
        while True:
            try:
                if isinstance(operation, Delete):
                    return self._delete(operation, fence, generation)
                return self._result(operation, asked.get(), fence)
            except self._errors.NoNodeError:
                if not (isinstance(operation, Get) and operation.watch):
                    return Result(outcome=Outcome.NO_NODE)
                # A missing node is watched by `exists`.
                if self._exists(operation.path, generation) is None:
                    return Result(outcome=Outcome.NO_NODE)
            except (self._errors.ConnectionLoss, self._errors.ConnectionClosedError) as error:
                if self._is_closed:
                    raise SessionLostError from error
            except (self._errors.SessionExpiredError, self._errors.AuthFailedError) as error:
                raise SessionLostError from error
            self.wait_connected(generation)
            asked = self._begin(operation, fence)

    def _exists(self, path: str, generation: int) -> Any:
        while True:
            try:
                return self._client.exists_async(path, self._watcher(path)).get()
            except self._errors.ConnectionLoss:
                self.wait_connected(generation)
            except (
                self._errors.SessionExpiredError,
                self._errors.ConnectionClosedError,
            ) as error:
                raise SessionLostError from error

    def _result(self, operation: Operation, found: Any, fence: int | None) -> Result:
        match operation:
            case Get():
                content, stat = found
                return Result(
                    content=content or None,
                    version=stat.version,
                    czxid=stat.czxid,
                    created_ms=stat.ctime,
                )
            case Children():
                return Result(children=tuple(found))
            case _:
                return self._written(found, fence)[-1]

    def _together(self, operations: tuple[Operation, ...], generation: int) -> tuple[Result, ...]:
        while True:
            self.wait_connected(generation)
            try:
                return tuple(self._written(self._transaction(operations, None).commit(), None))
            except self._errors.ConnectionLoss:
                continue
            except (
                self._errors.SessionExpiredError,
                self._errors.ConnectionClosedError,
            ) as error:
                raise SessionLostError from error

    def _transaction(self, operations: tuple[Operation, ...], fence: int | None) -> Any:
        transaction = self._client.transaction()
        if fence is not None:
            transaction.check(paths.CONTROLLER_EPOCH, fence)
        for one in operations:
            match one:
                case Create():
                    transaction.create(
                        one.path,
                        one.content or b"",
                        self._access.acl_of(one.path),
                        ephemeral=one.is_ephemeral,
                        sequence=one.is_sequential,
                    )
                case Set():
                    transaction.set_data(one.path, one.content, one.version)
                case Delete():
                    transaction.delete(one.path, one.version)
                case _:
                    raise AssertionError("only writes are transactions")
        return transaction

    def _written(self, results: list[Any], fence: int | None) -> list[Result]:
        if fence is not None:
            checked, *results = results
            if self._is_missed(checked):
                return [Result(outcome=Outcome.FENCED) for _ in results]
        return [
            Result(outcome=self._outcome(one), version=getattr(one, "version", 0))
            for one in results
        ]

    def _is_missed(self, checked: Any) -> bool:
        """Whether the check of the controller epoch failed."""
        return isinstance(checked, (self._errors.BadVersionError, self._errors.NoNodeError))

    def _outcome(self, result: Any) -> Outcome:
        errors = self._errors
        match result:
            case errors.NodeExistsError():
                return Outcome.NODE_EXISTS
            case errors.NoNodeError():
                return Outcome.NO_NODE
            case (
                errors.BadVersionError() | errors.RolledBackError() | errors.RuntimeInconsistency()
            ):
                return Outcome.BAD_VERSION
            case Exception():
                raise result
            case _:
                return Outcome.DONE

    def _delete(self, operation: Delete, fence: int | None, generation: int) -> Result:
        """Deletes a node and all nodes below it."""
        path = operation.path
        try:
            children = self._client.get_children_async(path).get()
        except self._errors.NoNodeError:
            return Result(outcome=Outcome.NO_NODE)
        for child in children:
            self._end(Delete(f"{path}/{child}"), None, fence, generation)
        results = self._transaction((operation,), fence).commit_async().get()
        if isinstance(results[-1], self._errors.NotEmptyError):
            return self._delete(operation, fence, generation)
        return self._written(results, fence)[-1]

    # Watches

    def _watcher(self, path: str) -> "Watcher":
        return Watcher(path, self._watched)

    def _watched(self, path: str, event: Any) -> None:
        """Handles an event; one without a path means that a watch was lost with the connection.

        The events of a session's end are ignored: the listener reports it.
        """
        if event.type != self._no_event:
            self._changed(path)
        elif event.state == self._connecting:
            with self._lock:
                self._unwatched.add(path)
                unwatched = self._take_unwatched()
            for one in unwatched:
                self._changed(one)

    def _take_unwatched(self) -> list[str]:
        """The paths of lost watches, parents first; none without a connection."""
        if not self._is_connected:
            return []
        unwatched, self._unwatched = self._unwatched, set()
        return sorted(unwatched, key=lambda path: path.count("/"))

    # Other operations of a broker

    def create_missing(self, nodes: tuple[str, ...]) -> None:
        for path in nodes:
            names = path.split("/")
            for count in range(2, len(names) + 1):
                node = "/".join(names[:count])
                if self._client.exists(node) is None:
                    with suppress(self._errors.NodeExistsError):
                        self._client.create(node, acl=self._access.acl_of(node))

    def stat(self, path: str) -> Any:
        """The node's `version`, `czxid` and `ephemeralOwner`; `None` if it is missing."""
        return self._exists(path, self.generation)


@dataclass(frozen=True, slots=True)
class Watcher:
    """The callback of a watch; kazoo calls equal watches of a node once."""

    path: str
    heard: Callable[[str, Any], None]

    def __call__(self, event: Any) -> None:
        self.heard(self.path, event)


def in_groups(batch: Batch) -> Iterator[Operations]:
    """Groups consecutive writes into transactions of limited count and size."""
    group: list[Operation] = []
    size, alone = 0, GROUP_SIZE + 1
    for one in batch.operations:
        its_size = len(one.content or b"") if isinstance(one, Create | Set) else alone
        if group and (len(group) == GROUP_COUNT or size + its_size > GROUP_SIZE):
            yield tuple(group)
            group, size = [], 0
        group.append(one)
        size += its_size
    if group:
        yield tuple(group)
