"""A ZooKeeper in memory: nodes with versions, sessions, watches; what the controller asks of it."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ottla.controller.operations import (
    ANY_VERSION,
    Batch,
    Children,
    Create,
    Delete,
    Get,
    Operation,
    Outcome,
    Result,
    Set,
)
from ottla.zookeeper import paths


@dataclass(slots=True)
class Node:
    content: bytes | None
    version: int
    czxid: int
    owner: int | None


@dataclass(slots=True)
class Session:
    number: int
    fired: Callable[[str], None]
    is_alive: bool = True


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"


@dataclass(slots=True)
class ModelZooKeeper:
    """`on_write` is called with a path and its content before and after."""

    on_write: Callable[[str, bytes | None, bytes | None], None] = lambda *_: None
    nodes: dict[str, Node] = field(default_factory=dict)
    sessions: dict[int, Session] = field(default_factory=dict)
    zxid: int = 0
    _data_watches: dict[str, set[int]] = field(default_factory=dict)
    _child_watches: dict[str, set[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.nodes["/"] = Node(None, 0, 0, None)
        for path in paths.PERSISTENT:
            self.make(path)

    def make(self, path: str, content: bytes | None = None) -> None:
        """A node, with those above it."""
        if path not in self.nodes:
            self.make(parent_of(path))
            self._create(Create(path, content), None)

    def connect(self, fired: Callable[[str], None]) -> Session:
        session = Session(len(self.sessions) + 1, fired)
        self.sessions[session.number] = session
        return session

    def expire(self, session: Session) -> None:
        """Its ephemeral nodes go, and its watches."""
        session.is_alive = False
        for watches in (*self._data_watches.values(), *self._child_watches.values()):
            watches.discard(session.number)
        for path in [path for path, node in self.nodes.items() if node.owner == session.number]:
            self._delete(Delete(path))

    def children(self, path: str) -> list[str]:
        prefix = path.rstrip("/") + "/"
        below = (name[len(prefix) :] for name in self.nodes if name.startswith(prefix))
        return sorted(name for name in below if name and "/" not in name)

    def content(self, path: str) -> bytes | None:
        return self.nodes[path].content

    def apply(self, operation: Create | Set) -> None:
        """By somebody else, who may."""
        if isinstance(operation, Create):
            self._create(operation, None)
        else:
            self._set(operation)

    def delete(self, path: str) -> None:
        self._delete(Delete(path))

    # What the controller asks

    def execute(self, session: Session, batch: Batch) -> tuple[Result, ...]:
        assert session.is_alive
        if batch.is_atomic:
            refused = [self._refusal(one) for one in batch.operations]
            if any(one is not Outcome.DONE for one in refused):
                return tuple(Result(outcome=one) for one in refused)
        fence = batch.epoch_version
        return tuple(self._do(session, one, fence) for one in batch.operations)

    def _refusal(self, operation: Operation) -> Outcome:
        node = self.nodes.get(operation.path)
        if isinstance(operation, Create):
            if node is not None:
                return Outcome.NODE_EXISTS
            return Outcome.DONE if parent_of(operation.path) in self.nodes else Outcome.NO_NODE
        if node is None:
            return Outcome.NO_NODE
        if isinstance(operation, Set | Delete) and operation.version not in (
            ANY_VERSION,
            node.version,
        ):
            return Outcome.BAD_VERSION
        return Outcome.DONE

    def _do(self, session: Session, operation: Operation, fence: int | None) -> Result:
        if isinstance(operation, Create) and operation.is_sequential:
            operation = replace(operation, path=f"{operation.path}{self.zxid:010d}")
        if isinstance(operation, Get | Children):
            return self._read(session, operation)
        if fence is not None and self.nodes[paths.CONTROLLER_EPOCH].version != fence:
            return Result(outcome=Outcome.FENCED)
        refusal = self._refusal(operation)
        if refusal is not Outcome.DONE:
            return Result(outcome=refusal)
        match operation:
            case Create():
                self._create(operation, session.number)
            case Set():
                self._set(operation)
            case Delete():
                self._delete(operation)
        node = self.nodes.get(operation.path)
        return Result() if node is None else Result(version=node.version, czxid=node.czxid)

    def _read(self, session: Session, operation: Get | Children) -> Result:
        node = self.nodes.get(operation.path)
        if operation.watch:
            is_get = isinstance(operation, Get)
            watches = self._data_watches if is_get else self._child_watches
            watches.setdefault(operation.path, set()).add(session.number)
        if node is None:
            return Result(outcome=Outcome.NO_NODE)
        if isinstance(operation, Children):
            return Result(children=tuple(self.children(operation.path)))
        return Result(content=node.content, version=node.version, czxid=node.czxid)

    def _create(self, operation: Create, session: int | None) -> None:
        self.zxid += 1
        owner = session if operation.is_ephemeral else None
        self.nodes[operation.path] = Node(operation.content, 0, self.zxid, owner)
        self.on_write(operation.path, None, operation.content)
        self._fire(self._data_watches, operation.path)
        self._fire(self._child_watches, parent_of(operation.path))

    def _set(self, operation: Set) -> None:
        self.zxid += 1
        node = self.nodes[operation.path]
        self.on_write(operation.path, node.content, operation.content)
        node.content, node.version = operation.content, node.version + 1
        self._fire(self._data_watches, operation.path)

    def _delete(self, operation: Delete) -> None:
        for child in self.children(operation.path):
            self._delete(Delete(f"{operation.path}/{child}"))
        self.zxid += 1
        del self.nodes[operation.path]
        for watches in (self._data_watches, self._child_watches):
            self._fire(watches, operation.path)
        self._fire(self._child_watches, parent_of(operation.path))

    def _fire(self, watches: dict[str, set[int]], path: str) -> None:
        """A watch fires once."""
        for number in sorted(watches.pop(path, ())):
            if self.sessions[number].is_alive:
                self.sessions[number].fired(path)
