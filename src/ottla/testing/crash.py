"""The state of a disk after a power failure: one of the states that a real disk could have.

Each unsynced change of a file has its own outcome, so a later write can survive an earlier one,
within a file and between files. Directory changes are kept in order within a directory, and each
completely or not at all, as by a journalling file system. Synced data is unchanged, unless an
unsynced write overwrites it.
"""

from collections.abc import Callable
from enum import Enum, auto
from itertools import pairwise
from random import Random

from ottla.testing.disk import (
    DirectoryNode,
    Disk,
    EntryChange,
    FileNode,
    Node,
    Resize,
    Standing,
    Write,
    overwrite,
)

SECTOR_SIZE = 512
"""The unit that a disk writes atomically."""


class CrashMode(Enum):
    """Which unsynced changes survive a crash.

    >>> disk = FakeFileSystem()
    >>> disk.open("notes", create=True, writable=True).close()
    >>> disk.crash(CrashMode.KEEP).list(".")
    ['notes']
    >>> disk.crash(CrashMode.STRICT).list(".")
    []
    """

    STRICT = "strict"
    """A power failure that loses everything unsynced."""

    KEEP = "keep"
    """A killed process: nothing is lost, and unsynced changes remain unsynced."""

    RANDOM = "random"
    """A power failure; a seed decides which changes had reached the disk."""


class WriteOutcome(Enum):
    """The outcome of an unsynced write."""

    WHOLE = auto()
    LOST = auto()
    PREFIX = auto()
    HOLES = auto()
    SIZE_ONLY = auto()


def crashed_disk(disk: Disk, mode: CrashMode, seed: int) -> Disk:
    """A new disk after a crash; `disk` is unchanged and can crash again with another seed."""
    match mode:
        case CrashMode.KEEP:
            return disk.copy()
        case CrashMode.STRICT:
            entries = surviving_entries(disk, [])
            return _rebuilt(disk, entries, lambda node: node.synced_content())
        case CrashMode.RANDOM:
            entries = surviving_entries(disk, _kept_changes(disk.journal, Random(f"{seed}")))
            return _rebuilt(
                disk, entries, lambda node: torn_content(node, Random(f"{seed}/{node.number}"))
            )


Entries = Callable[[DirectoryNode], dict[str, Node]]


def surviving_entries(disk: Disk, kept: list[EntryChange]) -> Entries:
    """Returns a function for the entries of a directory: the durable ones with the kept changes."""
    changed: dict[int, dict[str, Node]] = {}
    for change in kept:
        for edit in change:
            directory = edit.directory
            edit.apply(changed.setdefault(directory.number, dict(directory.durable)))
    return lambda directory: changed.get(directory.number, directory.durable)


def _rebuilt(disk: Disk, entries: Entries, content: Callable[[FileNode], bytearray]) -> Disk:
    """The nodes reachable from the root, all durable."""

    files: dict[int, FileNode] = {}

    def rebuild(node: Node) -> Node:
        if isinstance(node, FileNode):
            if (linked := files.get(node.number)) is not None:
                linked.link_count += 1
                return linked
            kept = content(node)
            made = FileNode(node.number, node.modified_ms, kept, bytes(kept))
            files[node.number] = made
            return made
        children = {name: rebuild(child) for name, child in entries(node).items()}
        return DirectoryNode(node.number, node.modified_ms, children, dict(children))

    root = rebuild(disk.root)
    assert isinstance(root, DirectoryNode)
    return disk.with_root(root)


def _kept_changes(journal: list[EntryChange], random: Random) -> list[EntryChange]:
    """A random subset in which each directory has all changes before each of its kept changes."""
    kept: list[EntryChange] = []
    ended: set[int] = set()
    keep_share = random.choice((0.0, 0.5, 0.8, 0.95, 1.0))
    for change in journal:
        touched = {edit.directory.number for edit in change}
        if ended.isdisjoint(touched) and random.random() < keep_share:
            kept.append(change)
        else:
            ended |= touched
    return kept


def torn_content(node: FileNode, random: Random) -> bytearray:
    """The content of a file after a power failure; each unsynced write has its own outcome."""
    content = bytearray(node.durable)
    outcomes = random.choice(
        ((WriteOutcome.WHOLE,), (WriteOutcome.LOST,), tuple(WriteOutcome), tuple(WriteOutcome))
    )
    resize_is_lost = False
    for change in node.pending:
        if change.standing is Standing.SYNCED:
            change.apply(content)
        elif resize_is_lost:
            # Writes after a lost resize are lost too, because the blocks allocated for them are
            # journalled.
            continue
        elif isinstance(change, Resize):
            resize_is_lost = random.choice(outcomes) is WriteOutcome.LOST
            if not resize_is_lost:
                change.apply(content)
        else:
            tear(content, change, random.choice(outcomes), random)
    return content


def tear(content: bytearray, write: Write, outcome: WriteOutcome, random: Random) -> None:
    """Applies the part of a write that its outcome keeps."""
    size = len(write.data)
    match outcome:
        case WriteOutcome.WHOLE:
            write.apply(content)
        case WriteOutcome.LOST:
            pass
        case WriteOutcome.PREFIX:
            if random.random() < 0.5:
                _extend(content, write, random)
            overwrite(content, write.position, write.data[: random.randrange(size + 1)])
        case WriteOutcome.HOLES:
            _extend(content, write, random)
            pieces = _sectors(write)
            missing = set(random.sample(pieces, random.randint(1, len(pieces)))) if pieces else ()
            for start, end in pieces:
                if (start, end) not in missing:
                    overwrite(content, write.position + start, write.data[start:end])
        case WriteOutcome.SIZE_ONLY:
            _extend(content, write, random)


def _extend(content: bytearray, write: Write, random: Random) -> None:
    """Extends the file without the write's data: zeros, or old contents of the blocks."""
    content.extend(bytes(max(0, write.position - len(content))))
    size = max(0, write.position + len(write.data) - len(content))
    content.extend(random.choice((bytes(size), random.randbytes(size))))


def _sectors(write: Write) -> list[tuple[int, int]]:
    """The write divided at sector boundaries, as ranges of its data."""
    cuts = range(SECTOR_SIZE - write.position % SECTOR_SIZE, len(write.data), SECTOR_SIZE)
    edges = [0, *cuts, len(write.data)]
    return [(start, end) for start, end in pairwise(edges) if start < end]
