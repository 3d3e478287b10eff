"""The content of a disk, written and synced: the state of a `FakeFileSystem`.

A file has its content, its content as of the last sync, and the changes between them. A directory
has the same for its entries, but the changes of all directories are in one journal, because a
rename between two directories is one change of both.
"""

from collections.abc import Hashable
from dataclasses import field, replace
from enum import Enum

from ottla.base.values import dataclass


class Standing(Enum):
    """The durability of a change of a file."""

    UNSYNCED = "a crash may lose it, a sync makes it durable"
    DOUBTFUL = "a sync failed with it: a crash may lose it, and no later sync helps"
    SYNCED = "durable, but written after a doubtful change, so that both must wait for the crash"


@dataclass(frozen=True, slots=True)
class Write:
    position: int
    data: bytes
    standing: Standing = Standing.UNSYNCED

    def apply(self, content: bytearray) -> None:
        overwrite(content, self.position, self.data)


@dataclass(frozen=True, slots=True)
class Resize:
    size: int
    standing: Standing = Standing.UNSYNCED

    def apply(self, content: bytearray) -> None:
        del content[self.size :]
        content.extend(bytes(self.size - len(content)))


ContentChange = Write | Resize


def overwrite(content: bytearray, position: int, data: bytes) -> None:
    """Writes like a disk: a gap before `position` becomes zeros; writing no bytes makes no gap."""
    if not data:
        return
    content.extend(bytes(max(0, position - len(content))))
    content[position : position + len(data)] = data


class Maps:
    """The views of a file that are still in use, each kept equal to the file."""

    def __init__(self) -> None:
        self._buffers: list[bytearray] = []

    def take(self, content: bytearray, size: int) -> memoryview:
        buffer = content[:size]
        self._buffers.append(buffer)
        return memoryview(buffer).toreadonly()

    def follow(self, write: Write) -> None:
        for buffer in self._held():
            start, end = write.position, min(len(buffer), write.position + len(write.data))
            if start < end:
                buffer[start:end] = write.data[: end - start]

    def reach(self) -> int:
        """The size of the largest view in use."""
        return max(map(len, self._held()), default=0)

    def _held(self) -> list[bytearray]:
        if self._buffers:
            self._buffers = [buffer for buffer in self._buffers if _is_viewed(buffer)]
        return self._buffers


def _is_viewed(buffer: bytearray) -> bool:
    """Whether a view of the bytearray exists, during which its length cannot change."""
    try:
        last = buffer.pop()  # appending first could copy the buffer to enlarge it
    except IndexError:
        return False
    except BufferError:
        return True
    buffer.append(last)
    return False


@dataclass(slots=True, eq=False)
class FileNode:
    """An inode: its current content and its durable content."""

    number: int
    modified_ms: int
    content: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    pending: list[ContentChange] = field(default_factory=list)
    maps: Maps = field(default_factory=Maps)
    link_count: int = 1

    def change(self, change: ContentChange, now_ms: int) -> None:
        if isinstance(change, Resize):
            reach = self.maps.reach()
            assert change.size >= reach, (
                f"cut to {change.size} bytes under a map of {reach}: "
                "on a real disk the next access to that map is a SIGBUS"
            )
        else:
            self.maps.follow(change)
        change.apply(self.content)
        self.pending.append(change)
        self.modified_ms = now_ms

    def sync(self) -> None:
        if any(change.standing is not Standing.UNSYNCED for change in self.pending):
            self._move((Write, Resize), Standing.SYNCED)
            return
        self.durable = bytes(self.content)
        self.pending.clear()

    def fail_sync(self) -> None:
        """Fails like Linux, which reports an error once and marks the pages clean, so they are not
        retried.
        """
        self._move((Write,), Standing.DOUBTFUL)

    def halve_last_write(self) -> None:
        """Undoes the second half of the last change, which is a write."""
        write = self.pending.pop()
        assert isinstance(write, Write)
        if half := write.data[: len(write.data) // 2]:
            self.pending.append(replace(write, data=half))
        self.content = bytearray(self.durable)
        for change in self.pending:
            change.apply(self.content)

    def copy(self) -> "FileNode":
        """A copy without mappings."""
        return FileNode(
            self.number,
            self.modified_ms,
            self.content[:],
            self.durable,
            self.pending[:],
            link_count=self.link_count,
        )

    def synced_content(self) -> bytearray:
        content = bytearray(self.durable)
        for change in self.pending:
            if change.standing is Standing.SYNCED:
                change.apply(content)
        return content

    def _move(self, kinds: tuple[type[ContentChange], ...], standing: Standing) -> None:
        self.pending = [
            replace(change, standing=standing)
            if isinstance(change, kinds) and change.standing is Standing.UNSYNCED
            else change
            for change in self.pending
        ]


@dataclass(slots=True, eq=False)
class DirectoryNode:
    number: int
    modified_ms: int
    entries: dict[str, "Node"] = field(default_factory=dict)
    durable: dict[str, "Node"] = field(default_factory=dict)


Node = FileNode | DirectoryNode


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit of a directory: a name gets a node or loses its node."""

    directory: DirectoryNode
    name: str
    node: Node | None

    def apply(self, entries: dict[str, Node]) -> None:
        if self.node is None:
            del entries[self.name]
        else:
            entries[self.name] = self.node


EntryChange = tuple[Edit, ...]
"""The edits of one call, which survive a crash together or not at all."""


class Disk:
    """A tree of nodes, and the journal of entry changes that are not synced."""

    def __init__(self, now_ms: int) -> None:
        self._node_count = 0
        self.root = DirectoryNode(self.next_number(), now_ms)
        self.journal: list[EntryChange] = []
        self.last_written: FileNode | None = None

    def next_number(self) -> int:
        self._node_count += 1
        return self._node_count

    def copy(self) -> "Disk":
        """A copy for another process, without the open files."""
        copied = Disk.__new__(Disk)
        copy_of = _Copies()
        copied._node_count = self._node_count
        copied.root = copy_of.directory(self.root)
        copied.journal = [
            tuple(
                Edit(
                    copy_of.directory(edit.directory),
                    edit.name,
                    None if edit.node is None else copy_of.node(edit.node),
                )
                for edit in change
            )
            for change in self.journal
        ]
        copied.last_written = None
        if self.last_written is not None:
            copied.last_written = copy_of.file(self.last_written)
        return copied

    def state(self) -> Hashable:
        """A value that is equal for disks that no process can distinguish, now or after another
        crash.
        """
        return _Looks().of(self)

    def contents(self) -> Hashable:
        """A value that is equal for disks with the same contents, whatever is synced."""
        return _Looks(only_now=True).of(self)

    def with_root(self, root: DirectoryNode) -> "Disk":
        """A disk on which everything is durable; numbers of new nodes do not repeat."""
        disk = Disk(root.modified_ms)
        disk.root = root
        disk._node_count = self._node_count
        return disk

    def change(self, *edits: Edit, now_ms: int) -> None:
        for edit in edits:
            edit.apply(edit.directory.entries)
            edit.directory.modified_ms = now_ms
        self.journal.append(edits)

    def sync(self, directory: DirectoryNode) -> None:
        """Makes the changes of a directory durable, and changes of others on which they depend."""
        needed = {directory.number}
        kept: list[EntryChange] = []
        waiting: list[EntryChange] = []
        for change in reversed(self.journal):
            touched = {edit.directory.number for edit in change}
            if needed.isdisjoint(touched):
                waiting.append(change)
            else:
                needed |= touched
                kept.append(change)
        for change in reversed(kept):
            for edit in change:
                edit.apply(edit.directory.durable)
        self.journal = waiting[::-1]


class _Copies:
    """Copies each node once, however often it is referenced."""

    def __init__(self) -> None:
        self._made: dict[int, Node] = {}

    def node(self, node: Node) -> Node:
        return self.file(node) if isinstance(node, FileNode) else self.directory(node)

    def file(self, node: FileNode) -> FileNode:
        made = self._made.get(node.number)
        if made is None:
            made = self._made[node.number] = node.copy()
        assert isinstance(made, FileNode)
        return made

    def directory(self, node: DirectoryNode) -> DirectoryNode:
        made = self._made.get(node.number)
        if made is None:
            made = self._made[node.number] = DirectoryNode(node.number, node.modified_ms)
            made.entries = {name: self.node(child) for name, child in node.entries.items()}
            made.durable = {name: self.node(child) for name, child in node.durable.items()}
        assert isinstance(made, DirectoryNode)
        return made


class _Looks:
    """Converts a disk to a value; nodes are numbered in order of first reference."""

    def __init__(self, *, only_now: bool = False) -> None:
        self._met: dict[int, int] = {}
        self._only_now = only_now

    def of(self, disk: Disk) -> Hashable:
        root = self._node(disk.root)
        if self._only_now:
            return root
        return root, tuple(tuple(map(self._edit, change)) for change in disk.journal)

    def _node(self, node: Node) -> Hashable:
        if node.number in self._met:
            return self._met[node.number]
        self._met[node.number] = len(self._met)
        if isinstance(node, FileNode):
            if self._only_now:
                return node.modified_ms, bytes(node.content)
            pending = tuple(map(_look, node.pending))
            return node.modified_ms, bytes(node.content), node.durable, pending
        entries = tuple((name, self._node(child)) for name, child in sorted(node.entries.items()))
        if self._only_now:
            return node.modified_ms, entries
        durable = tuple((name, self._node(child)) for name, child in sorted(node.durable.items()))
        return node.modified_ms, entries, durable

    def _edit(self, edit: Edit) -> Hashable:
        node = None if edit.node is None else self._node(edit.node)
        return self._node(edit.directory), edit.name, node


def _look(change: ContentChange) -> Hashable:
    if isinstance(change, Resize):
        return change.size, change.standing.name
    return change.position, change.data, change.standing.name
