"""What was written to a disk and what was synced: the state of a `FakeFileSystem`.

A file is its content, its content when it was last synced, and the changes between the two. A
directory is the same for its entries, except that the changes of all directories stand in one
journal, since a rename from one directory to another is a single change of both.
"""

import copy
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Standing(Enum):
    """How far a change of a file has got."""

    UNSYNCED = "a crash may lose it, a sync makes it durable"
    DOUBTFUL = "a sync failed with it: a crash may lose it, and no later sync helps"
    SYNCED = "durable, but written after a doubtful change, so that both must wait for the crash"


@dataclass(slots=True)
class Write:
    position: int
    data: bytes
    standing: Standing = Standing.UNSYNCED

    def apply(self, content: bytearray) -> None:
        overwrite(content, self.position, self.data)


@dataclass(slots=True)
class Resize:
    size: int
    standing: Standing = Standing.UNSYNCED

    def apply(self, content: bytearray) -> None:
        del content[self.size :]
        content.extend(bytes(self.size - len(content)))


ContentChange = Write | Resize


def overwrite(content: bytearray, position: int, data: bytes) -> None:
    """Writes as a disk does: a gap before `position` reads as zeros, no bytes make no gap."""
    if not data:
        return
    content.extend(bytes(max(0, position - len(content))))
    content[position : position + len(data)] = data


class Maps:
    """The views of one file that somebody still holds, each kept equal to the file."""

    def __init__(self) -> None:
        self._buffers: list[bytearray] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> "Maps":
        return Maps()  # A copied disk belongs to a new process, which has mapped nothing yet.

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
        """The size of the largest view that is still held."""
        return max(map(len, self._held()), default=0)

    def _held(self) -> list[bytearray]:
        if self._buffers:
            self._buffers = [buffer for buffer in self._buffers if _is_viewed(buffer)]
        return self._buffers


def _is_viewed(buffer: bytearray) -> bool:
    """A bytearray refuses to change its length while any view of it, however derived, is held."""
    try:
        last = buffer.pop()  # to append first would copy a buffer that has no room
    except IndexError:
        return False
    except BufferError:
        return True
    buffer.append(last)
    return False


@dataclass(slots=True, eq=False)
class FileNode:
    """An inode: what has the name now, and what the disk would give back."""

    number: int
    modified_ms: int
    content: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[ContentChange] = field(default_factory=list)
    maps: Maps = field(default_factory=Maps)

    def change(self, change: ContentChange, now_ms: int) -> None:
        if isinstance(change, Resize):
            reach = self.maps.reach()
            assert change.size >= reach, (
                f"cut to {change.size} bytes under a map of {reach}: "
                "on a real disk the next look at that map is a SIGBUS"
            )
        else:
            self.maps.follow(change)
        change.apply(self.content)
        self.pending.append(change)
        self.modified_ms = now_ms

    def sync(self) -> None:
        if any(change.standing is not Standing.UNSYNCED for change in self.pending):
            self._move(self.pending, Standing.SYNCED)
            return
        for change in self.pending:
            change.apply(self.durable)
        self.pending.clear()

    def fail_sync(self) -> None:
        """The kernel reports an error once and marks the pages clean: they are never retried."""
        self._move([one for one in self.pending if isinstance(one, Write)], Standing.DOUBTFUL)

    def synced_content(self) -> bytearray:
        content = bytearray(self.durable)
        for change in self.pending:
            if change.standing is Standing.SYNCED:
                change.apply(content)
        return content

    @staticmethod
    def _move(changes: list[ContentChange] | list[Write], standing: Standing) -> None:
        for change in changes:
            if change.standing is Standing.UNSYNCED:
                change.standing = standing


@dataclass(slots=True, eq=False)
class DirectoryNode:
    number: int
    modified_ms: int
    entries: dict[str, "Node"] = field(default_factory=dict)
    durable: dict[str, "Node"] = field(default_factory=dict)


Node = FileNode | DirectoryNode


@dataclass(frozen=True, slots=True)
class Edit:
    """One name in one directory gets a node, or loses the one it had."""

    directory: DirectoryNode
    name: str
    node: Node | None

    def apply(self, entries: dict[str, Node]) -> None:
        if self.node is None:
            del entries[self.name]
        else:
            entries[self.name] = self.node


EntryChange = tuple[Edit, ...]
"""The edits of one call, which a journal keeps or loses together."""


class Disk:
    """A tree of nodes, and the journal of the entry changes that no sync has made durable."""

    def __init__(self, now_ms: int) -> None:
        self._node_count = 0
        self.root = DirectoryNode(self.next_number(), now_ms)
        self.journal: list[EntryChange] = []

    def next_number(self) -> int:
        self._node_count += 1
        return self._node_count

    def copy(self) -> "Disk":
        return copy.deepcopy(self)

    def with_root(self, root: DirectoryNode) -> "Disk":
        """A disk on which everything is durable; new nodes get numbers that no old one has."""
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
        """Makes the changes of a directory durable, and those of others that they stand on."""
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
